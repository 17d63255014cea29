#include "base/json/depth.h"

namespace leat {

bool IsShallowJson(std::string_view text, int levels) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted && c == '\\') ++i;  // and what follows it
    if (quoted) continue;
    if ((c == '[' || c == '{') && ++depth > levels) return false;
    if (c == ']' || c == '}') --depth;
  }
  return true;
}

}  // namespace leat
