// A manifest that is read is written as the same one. The input is a manifest without its checksum.
#include "base/check.h"
#include "storage/checkpoint/manifest.h"

using namespace leat::checkpoint;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  LEAT_CHECK(!ParseManifest(leat::AsBytes(text), "fuzz").ok() ||
             text.find("\"checksum\"") != std::string::npos);
  const auto manifest = ParseManifest(leat::AsBytes(text + ChecksumTail(text)), "fuzz");
  if (!manifest.ok()) return 0;
  const auto again = ParseManifest(leat::AsBytes(EncodeManifest(*manifest)), "fuzz");
  LEAT_CHECK(again.ok() && *again == *manifest);
  return 0;
}
