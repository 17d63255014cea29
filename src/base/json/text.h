// JSON from text and to text. The parser and the writer of nlohmann/json are compiled behind these functions
// alone: they are 50 kB of templates in each batch that calls them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace leat {

// Without building the value. Numbers beyond the range of double are not taken.
bool IsJson(std::string_view text);

// Discarded (is_discarded()) if the text is not JSON.
nlohmann::json ParsedJson(std::string_view text);
nlohmann::ordered_json ParsedOrderedJson(std::string_view text);  // keeps the order of names

// In quotation marks. Bytes that are not UTF-8 become U+FFFD.
std::string JsonString(std::string_view text);
// Bytes that are not UTF-8 become U+FFFD. With an indentation, each value is on a line of its own.
std::string JsonText(const nlohmann::json& value, int indentation = -1);
std::string JsonText(const nlohmann::ordered_json& value, int indentation = -1);

// Protection against JSON of others that is nested so deep that functions which follow it, such as nlohmann's
// dump and copies, overflow the stack.

// Whether lists and objects are nested in at most so many levels, as far as the text is JSON.
bool IsShallowJson(std::string_view text, int levels);

}  // namespace leat
