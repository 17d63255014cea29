#include "base/encoding/varint.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "base/encoding/printable.h"
#include "base/rng.h"

namespace leat {
namespace {

std::string Encoded(uint64_t value) {
  ByteWriter out;
  PutVarint(value, &out);
  return ToHex(out.view());
}

// Nothing if the reader fails.
std::optional<uint64_t> Decoded(const std::string& digits) {
  const Bytes bytes = *FromHex(digits);
  ByteReader in(bytes);
  const uint64_t value = GetVarint(&in);
  if (in.Done()) return value;
  EXPECT_EQ(value, 0u) << digits;
  return std::nullopt;
}

TEST(Varint, BytesAreThoseOfProtocolBuffers) {
  EXPECT_EQ(Encoded(0), "00");
  EXPECT_EQ(Encoded(127), "7f");
  EXPECT_EQ(Encoded(128), "8001");
  EXPECT_EQ(Encoded(300), "ac02");
  EXPECT_EQ(Encoded(std::numeric_limits<uint64_t>::max()), "ffffffffffffffffff01");
}

TEST(Varint, EveryLengthComesBackAndNoPrefixDoes) {
  Rng rng(1);
  for (int bits = 0; bits < 64; ++bits) {
    for (const uint64_t value : {(uint64_t{1} << bits) - 1, uint64_t{1} << bits, rng() >> bits}) {
      const std::string digits = Encoded(value);
      EXPECT_EQ(Decoded(digits), value);
      EXPECT_EQ(BytesOfVarint(value), digits.size() / 2);
      for (size_t size = 0; size < digits.size(); size += 2)
        EXPECT_EQ(Decoded(digits.substr(0, size)), std::nullopt) << digits;
    }
  }
}

TEST(Varint, LongerFormsAndMoreThan64BitsAreRefused) {
  EXPECT_EQ(Decoded("8000"), std::nullopt);
  EXPECT_EQ(Decoded("ff00"), std::nullopt);
  EXPECT_EQ(Decoded("ac8200"), std::nullopt);
  EXPECT_EQ(Decoded("ffffffffffffffffff00"), std::nullopt);
  EXPECT_EQ(Decoded("ffffffffffffffffff02"), std::nullopt);
  EXPECT_EQ(Decoded("ffffffffffffffffff8100"), std::nullopt);
  EXPECT_EQ(Decoded("80808080808080808001"), uint64_t{1} << 63);
}

TEST(Varint, SmallNumbersOfEitherSignGetFewBytes) {
  EXPECT_EQ(ZigZag(0), 0u);
  EXPECT_EQ(ZigZag(-1), 1u);
  EXPECT_EQ(ZigZag(1), 2u);
  EXPECT_EQ(ZigZag(std::numeric_limits<int64_t>::min()), std::numeric_limits<uint64_t>::max());
  Rng rng(2);
  for (int i = 0; i < 1000; ++i) {
    const auto value = static_cast<int64_t>(rng() >> rng.Below(64)) * (rng.Chance(0.5) ? 1 : -1);
    EXPECT_EQ(UnZigZag(ZigZag(value)), value);
  }
  for (const int64_t value : {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()})
    EXPECT_EQ(UnZigZag(ZigZag(value)), value);
}

}  // namespace
}  // namespace leat
