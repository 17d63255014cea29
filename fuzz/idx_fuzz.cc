// An idx file is accepted only if its size matches its header; any other is an error, not a crash.
#include "base/check.h"
#include "stream/files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto idx = leat::stream::ParseIdx({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
  if (!idx.ok()) {
    LEAT_CHECK(idx.status().code() == leat::Code::kDataLoss);
    return 0;
  }
  size_t bytes = 1;
  for (uint32_t n : idx->sizes) bytes *= n;
  LEAT_CHECK(bytes == idx->data.size());
  return 0;
}
