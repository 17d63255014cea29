// Reading of JSON that is not believed. Only sources of this folder include this; what these throw is caught
// where a file's parser ends and becomes its Status.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace leat::checkpoint {

using Json = nlohmann::json;

struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// An object. Values deeper than a few levels are refused before they take memory.
Json ParseJson(std::string_view text);

const Json& At(const Json& object, const char* key);
uint64_t Unsigned(const Json& value);
uint32_t Unsigned32(const Json& value);
std::string Text(const Json& value);
const Json& List(const Json& value);
// Sixteen hexadecimal digits.
uint64_t Hex(const Json& value);

inline uint64_t Unsigned(const Json& object, const char* key) {
  return Unsigned(At(object, key));
}
inline std::string Text(const Json& object, const char* key) {
  return Text(At(object, key));
}
inline const Json& List(const Json& object, const char* key) {
  return List(At(object, key));
}

std::string ToHex(uint64_t value);

}  // namespace leat::checkpoint
