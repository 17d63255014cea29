// Bytes as printable text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace leat {

// Hexadecimal digits of bytes and numbers, in lower case.

// Two digits for each byte.
std::string ToHex(ByteView bytes);
std::string ToHex(std::string_view bytes);
// 16 digits.
std::string ToHex(uint64_t value);

// The bytes of what ToHex returns; none for any other text.
std::optional<Bytes> FromHex(std::string_view digits);
// The number, of exactly 16 digits.
std::optional<uint64_t> NumberFromHex(std::string_view digits);

// Bytes as text in the alphabet of RFC 4648, section 4.

std::string ToBase64(std::string_view bytes);
// Ends at the first character that is not in the alphabet.
std::string FromBase64(std::string_view text);

}  // namespace leat
