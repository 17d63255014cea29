#include "base/encoding/printable.h"

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

namespace {

// RFC 4648, section 10.
TEST(Base64, OfTheStandard) {
  const std::pair<const char*, const char*> pairs[] = {
      {"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"\xfb\xff", "+/8="}};
  for (const auto& [bytes, text] : pairs) {
    EXPECT_EQ(ToBase64(bytes), text);
    EXPECT_EQ(FromBase64(text), bytes);
  }
}

TEST(Base64, EndsWhereTheAlphabetEnds) {
  EXPECT_EQ(FromBase64("Zm9v Zm9v"), "foo");
}

}  // namespace

}  // namespace leat
