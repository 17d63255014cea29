#include "base/encoding/base64.h"

#include <cstdint>

namespace leat {
namespace {

constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string ToBase64(std::string_view bytes) {
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) {
      group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0);
    }
    for (size_t k = 0; k < 4; ++k) {
      out += i + k <= bytes.size() ? kBase64[group >> (18 - 6 * k) & 63] : '=';
    }
  }
  return out;
}

std::string FromBase64(std::string_view text) {
  std::string out;
  uint32_t group = 0, bits = 0;
  for (char c : text) {
    const size_t value = kBase64.find(c);
    if (value == std::string_view::npos) break;
    group = group << 6 | static_cast<uint32_t>(value);
    if ((bits += 6) >= 8) out += static_cast<char>(group >> (bits -= 8));
  }
  return out;
}

}  // namespace leat
