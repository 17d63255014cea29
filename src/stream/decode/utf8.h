// Checks that text is UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace leat::stream {

bool ValidUtf8(std::string_view text);
// "is not UTF-8 (byte 0xe1 at 4)" for the first byte that is wrong; empty if there is none.
std::string WhyNotUtf8(std::string_view text);

}  // namespace leat::stream
