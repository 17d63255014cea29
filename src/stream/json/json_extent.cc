#include "stream/json/json_extent.h"

namespace leat::stream {

size_t EndOfJson(std::string_view text) {
  size_t depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      while (++i < text.size() && text[i] != '"') i += text[i] == '\\';
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if ((c == ']' || c == '}') && (depth <= 1 || --depth == 0)) {
      return i + 1;
    }
  }
  return text.npos;
}

}  // namespace leat::stream
