#include "stream/decode/utf8.h"

#include <simdjson.h>

#include "base/text.h"

namespace leat::stream {

bool ValidUtf8(std::string_view text) {
  return simdjson::validate_utf8(text.data(), text.size());
}

std::string WhyNotUtf8(std::string_view text) {
  if (ValidUtf8(text)) return "";
  // Character by character, to the first that is none.
  size_t good = 0;
  while (good < text.size()) {
    size_t size = 1;
    while (size <= 4 && good + size <= text.size() && !ValidUtf8(text.substr(good, size))) ++size;
    if (size > 4 || good + size > text.size()) break;
    good += size;
  }
  return Formatted("is not UTF-8 (byte 0x%02x at %zu)",
                   static_cast<unsigned>(static_cast<unsigned char>(text[good])), good);
}

}  // namespace leat::stream
