#include "base/json/text.h"

#include <nlohmann/json.hpp>

namespace leat {

using nlohmann::json;
using nlohmann::ordered_json;

bool IsJson(std::string_view text) {
  return json::accept(text);
}

json ParsedJson(std::string_view text) {
  return json::parse(text, nullptr, false);
}

ordered_json ParsedOrderedJson(std::string_view text) {
  return ordered_json::parse(text, nullptr, false);
}

std::string JsonString(std::string_view text) {
  return JsonText(json(text));
}

std::string JsonText(const json& value, int indentation) {
  return value.dump(indentation, ' ', false, json::error_handler_t::replace);
}

std::string JsonText(const ordered_json& value, int indentation) {
  return value.dump(indentation, ' ', false, ordered_json::error_handler_t::replace);
}

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
