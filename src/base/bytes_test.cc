#include "base/bytes.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/rng.h"

namespace leat {
namespace {

enum class Colour : uint16_t { kRed = 0x1234 };

TEST(Bytes, ComeBackAsTheyWereWritten) {
  ByteWriter w;
  w.Put(uint8_t{0xab});
  w.Put(Colour::kRed);
  w.Put(int64_t{-5});
  w.Put(1.5f);
  w.PutString("leat");
  w.PutString("");
  w.PutRaw(AsBytes("raw"));
  const Bytes bytes = w.Take();
  ByteReader r(bytes);
  EXPECT_EQ(r.Get<uint8_t>(), 0xab);
  EXPECT_EQ(r.Get<Colour>(), Colour::kRed);
  EXPECT_EQ(r.Get<int64_t>(), -5);
  EXPECT_EQ(r.Get<float>(), 1.5f);
  EXPECT_EQ(r.GetString(4), "leat");
  EXPECT_EQ(r.GetString(0), "");
  EXPECT_FALSE(r.Done());
  EXPECT_EQ(AsText(r.GetRaw(3)), "raw");
  EXPECT_TRUE(r.Done());
}

TEST(Bytes, AreLittleEndianWithoutPadding) {
  ByteWriter w;
  w.Put(uint8_t{1});
  w.Put(uint32_t{0x05040302});
  w.PutString("x");
  EXPECT_EQ(AsText(w.view()), std::string_view("\x01\x02\x03\x04\x05\x01\0\0\0x", 10));
}

TEST(Bytes, PatchOverwritesInPlace) {
  ByteWriter w;
  w.Put(uint32_t{0});
  w.PutString("abc");
  w.PatchAt(0, static_cast<uint32_t>(w.size()));
  ByteReader r(w.view());
  EXPECT_EQ(r.Get<uint32_t>(), 11u);
}

TEST(ByteReader, FailsForGoodAndReadsZerosThen) {
  const Bytes bytes(6, std::byte{0xff});
  ByteReader r(bytes);
  EXPECT_EQ(r.Get<uint32_t>(), 0xffffffffu);
  EXPECT_EQ(r.Get<uint32_t>(), 0u);
  EXPECT_FALSE(r.ok());
  EXPECT_EQ(r.Get<uint8_t>(), 0) << "two bytes are left, but the reader has failed";
  EXPECT_EQ(r.GetRaw(0).size(), 0u);
  EXPECT_EQ(r.remaining(), 0u);
  EXPECT_FALSE(r.Done());
}

TEST(ByteReader, LengthsAreHeldAgainstLimitAndRest) {
  ByteWriter w;
  w.PutString("twelve bytes");
  ByteReader limited(w.view());
  EXPECT_EQ(limited.GetString(11), "");
  EXPECT_FALSE(limited.ok());

  ByteWriter lie;
  lie.Put(uint32_t{0xffffffff});
  lie.PutRaw(AsBytes("abc"));
  ByteReader beyond(lie.view());
  EXPECT_EQ(beyond.GetString(std::numeric_limits<uint32_t>::max()), "");
  EXPECT_FALSE(beyond.ok());

  ByteReader huge(lie.view());
  EXPECT_TRUE(huge.GetRaw(std::numeric_limits<uint64_t>::max()).empty());
  EXPECT_FALSE(huge.ok());
}

TEST(ByteReader, AnyBytesAreSafeToRead) {
  Rng rng(1);
  for (int round = 0; round < 2000; ++round) {
    Bytes bytes(rng.Below(40));
    for (auto& b : bytes) b = static_cast<std::byte>(rng.Below(rng.Chance(0.5) ? 4 : 256));
    ByteReader r(bytes);
    for (int i = 0; i < 8; ++i) {
      switch (rng.Below(3)) {
        case 0:
          r.Get<uint64_t>();
          break;
        case 1:
          EXPECT_LE(r.GetString(64).size(), bytes.size());
          break;
        case 2:
          EXPECT_LE(r.GetRaw(rng()).size(), bytes.size());
          break;
      }
    }
    EXPECT_LE(r.remaining(), bytes.size());
  }
}

TEST(Checksum, IsXxh3AndSeesEveryBit) {
  EXPECT_EQ(Checksum({}), 0x2d06800538d394c2ull);
  Bytes bytes(300);
  const uint64_t before = Checksum(bytes);
  EXPECT_NE(Checksum(bytes, 1), before);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(Checksum(bytes), before) << bit;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

}  // namespace
}  // namespace leat
