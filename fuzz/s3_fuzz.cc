// Replies of an object store: a reply that can be read has keys and ids, and the message of an error is a
// single line.
#include "base/check.h"
#include "storage/object_store/replies.h"

using namespace leat::object_store;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const leat::ByteView body(reinterpret_cast<const std::byte*>(data), size);
  if (const auto list = ParseList(body); list.ok()) {
    for (const auto& object : list->items) LEAT_CHECK(!object.key.empty());
  }
  if (const auto uploads = ParseUploads(body); uploads.ok()) {
    for (const auto& upload : uploads->items) LEAT_CHECK(!upload.id.empty());
  }
  if (const auto begun = ParseBegun(body); begun.ok()) LEAT_CHECK(!begun->empty());
  (void)ParseCompleted(body);
  LEAT_CHECK(ParseError(body).message.find('\n') == std::string::npos);
  return 0;
}
