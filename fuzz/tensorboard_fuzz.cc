// An event file that is read is written as one with the same events.
#include "base/check.h"
#include "show/tensorboard/testing.h"

using namespace leat::tensorboard;

namespace {

std::string Write(const std::vector<Event>& events) {
  std::string file;
  for (const Event& event : events) AppendRecord(leat::AsBytes(Encode(event)), &file);
  return file;
}

// Fuzzers do not find checksums: the input is also taken for one event.
std::string Framed(leat::ByteView data) {
  std::string file;
  AppendRecord(data, &file);
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const leat::ByteView input(reinterpret_cast<const std::byte*>(data), size);
  for (const std::string& file : {std::string(leat::AsText(input)), Framed(input)}) {
    const auto events = DecodeFile(leat::AsBytes(file), "fuzz");
    if (!events.ok()) continue;
    const std::string written = Write(*events);
    const auto again = DecodeFile(leat::AsBytes(written), "fuzz");
    LEAT_CHECK(again.ok());
    // NaN differs from itself, its bytes do not.
    LEAT_CHECK(Write(*again) == written);
  }
  return 0;
}
