// Parsing of untrusted JSON. Only sources of this folder include this. Its exceptions are converted to a
// Status by the parser of each file format.
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

// Parses an object. Deep nesting is rejected before it uses memory.
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

}  // namespace leat::checkpoint
