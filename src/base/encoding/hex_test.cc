#include "base/encoding/hex.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

TEST(Hex, BytesComeBack) {
  Bytes all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<std::byte>(i));
  const std::string digits = ToHex(all);
  EXPECT_EQ(digits.substr(0, 6), "000102");
  EXPECT_EQ(digits.substr(506), "fdfeff");
  EXPECT_EQ(FromHex(digits), all);
  EXPECT_EQ(ToHex(std::string_view("\xf0 z")), "f0207a");
  EXPECT_EQ(ToHex(Bytes()), "");
  EXPECT_EQ(FromHex(""), Bytes());
}

TEST(Hex, NumbersHaveSixteenDigits) {
  EXPECT_EQ(ToHex(uint64_t{0}), "0000000000000000");
  EXPECT_EQ(ToHex(uint64_t{0x1f}), "000000000000001f");
  EXPECT_EQ(ToHex(UINT64_MAX), "ffffffffffffffff");
}

TEST(Hex, OtherTextIsRefused) {
  for (const char* text : {"0", "000", "0g", "AB", " 00", "0x00", "00\n"})
    EXPECT_FALSE(FromHex(text)) << text;
}

}  // namespace
}  // namespace leat
