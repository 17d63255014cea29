// Bytes as text in the alphabet of RFC 4648, section 4.
#pragma once

#include <string>
#include <string_view>

namespace leat {

std::string ToBase64(std::string_view bytes);
// Ends at the first character that is not in the alphabet.
std::string FromBase64(std::string_view text);

}  // namespace leat
