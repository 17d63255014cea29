#include "base/encoding/printable.h"

#include <cstdint>

namespace leat {

namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

}  // namespace

std::string ToHex(ByteView bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) {
    text += kDigits[static_cast<size_t>(byte) >> 4];
    text += kDigits[static_cast<size_t>(byte) & 15];
  }
  return text;
}

std::string ToHex(std::string_view bytes) {
  return ToHex(AsBytes(bytes));
}

std::string ToHex(uint64_t value) {
  std::string text(16, '0');
  for (auto digit = text.rbegin(); value != 0; ++digit, value >>= 4) *digit = kDigits[value & 15];
  return text;
}

std::optional<Bytes> FromHex(std::string_view digits) {
  if (digits.size() % 2 != 0) return std::nullopt;
  Bytes bytes(digits.size() / 2);
  for (size_t i = 0; i < digits.size(); ++i) {
    const size_t value = kDigits.find(digits[i]);
    if (value == std::string_view::npos) return std::nullopt;
    bytes[i / 2] = bytes[i / 2] << 4 | static_cast<std::byte>(value);
  }
  return bytes;
}

std::optional<uint64_t> NumberFromHex(std::string_view digits) {
  const auto bytes = FromHex(digits);
  if (!bytes || bytes->size() != sizeof(uint64_t)) return std::nullopt;
  uint64_t number = 0;
  for (const std::byte byte : *bytes) number = number << 8 | static_cast<uint64_t>(byte);
  return number;
}

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
