#include "stream/decode/text.h"

#include <simdjson.h>

#include "base/text.h"

namespace leat::stream {

bool ValidUtf8(std::string_view text) {
  return simdjson::validate_utf8(text.data(), text.size());
}

std::string WhyNotUtf8(std::string_view text) {
  if (ValidUtf8(text)) return "";
  size_t good = 0;
  while (const size_t size = Utf8Length(text.substr(good))) good += size;
  return Formatted("is not UTF-8 (byte 0x%02x at %zu)",
                   static_cast<unsigned>(static_cast<unsigned char>(text[good])), good);
}

}  // namespace leat::stream
