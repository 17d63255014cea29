// A safetensors header that is read is written as the same one. The input is the size of the data, then the
// JSON.
#include "base/check.h"
#include "storage/checkpoint/safetensors.h"

using namespace leat::checkpoint;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  leat::ByteReader in({reinterpret_cast<const std::byte*>(data), size});
  const uint64_t data_bytes = in.Get<uint16_t>();
  const auto head = ParseSafetensorsHeader(in.GetRaw(in.remaining()), data_bytes, "fuzz");
  if (!head.ok()) return 0;
  const auto text = EncodeSafetensorsHeader(*head);
  LEAT_CHECK(text.ok());
  const auto again = ParseSafetensorsHeader(leat::AsBytes(*text).subspan(8), data_bytes, "fuzz");
  LEAT_CHECK(again.ok() && again->metadata == head->metadata && again->tensors == head->tensors);
  return 0;
}
