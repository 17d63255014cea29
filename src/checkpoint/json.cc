#include "checkpoint/json.h"

#include <charconv>

namespace leat::checkpoint {
namespace {

constexpr int kMaxDepth = 8;

// A value for error messages, shortened to fit a line.
std::string Excerpt(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > 40) text = text.substr(0, 37) + "...";
  return text;
}

}  // namespace

Json ParseJson(std::string_view text) {
  const auto shallow = [](int depth, Json::parse_event_t event, Json&) {
    if (depth > kMaxDepth &&
        (event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start)) {
      throw Malformed("deeper than " + std::to_string(kMaxDepth) + " levels");
    }
    return true;
  };
  try {
    Json json = Json::parse(text.begin(), text.end(), shallow);
    if (!json.is_object()) throw Malformed("not a JSON object");
    return json;
  } catch (const Json::exception& e) {
    throw Malformed(e.what());
  }
}

const Json& At(const Json& object, const char* key) {
  if (!object.is_object()) throw Malformed(Excerpt(object) + " has no '" + key + "'");
  const auto found = object.find(key);
  if (found == object.end()) throw Malformed(std::string("'") + key + "' is missing");
  return *found;
}

uint64_t Unsigned(const Json& value) {
  if (!value.is_number_unsigned()) throw Malformed(Excerpt(value) + " is not an unsigned number");
  return value.get<uint64_t>();
}

uint32_t Unsigned32(const Json& value) {
  const uint64_t number = Unsigned(value);
  if (number > UINT32_MAX) throw Malformed(std::to_string(number) + " does not fit 32 bits");
  return static_cast<uint32_t>(number);
}

std::string Text(const Json& value) {
  if (!value.is_string()) throw Malformed(Excerpt(value) + " is not a text");
  return value.get<std::string>();
}

const Json& List(const Json& value) {
  if (!value.is_array()) throw Malformed(Excerpt(value) + " is not a list");
  return value;
}

uint64_t Hex(const Json& value) {
  const std::string text = Text(value);
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (text.size() != 16 || error != std::errc() || end != text.data() + text.size()) {
    throw Malformed(Excerpt(value) + " is not a number of 16 hexadecimal digits");
  }
  return number;
}

}  // namespace leat::checkpoint
