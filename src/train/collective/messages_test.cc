#include "train/collective/port.h"

#include <gtest/gtest.h>

#include "base/encoding/printable.h"
#include "base/fields/files/testing.h"
#include "base/fields/testing.h"

namespace leat::collective {
namespace {

const PieceHeader kPiece{.bucket = 300,
                         .bytes = 1 << 20,
                         .path = protocol::ReducePath::kOneShot,
                         .reduce = 1,
                         .phase = 2,
                         .piece = 3};

TEST(GroupMessages, ComeBackWhole) {
  EXPECT_EQ(fields::CodecFault<Greet>(100), "");
  EXPECT_EQ(fields::CodecFault<BucketHeader>(100), "");
  EXPECT_EQ(fields::CodecFault<Alive>(100), "");
  EXPECT_EQ(fields::CodecFault<AbortMessage>(100), "");
  EXPECT_EQ(fields::CodecFault(kPiece), "");
}

TEST(GroupMessages, BytesAreThoseOfTheTable) {
  EXPECT_EQ(ToHex(fields::Encode(Greet{300, 4, 3, ChannelKind::kControl})), "ac02040301");
  EXPECT_EQ(ToHex(fields::Encode(BucketHeader{300})), "ac02");
  EXPECT_EQ(ToHex(fields::Encode(Alive{300, true, 2})), "ac020102");
  EXPECT_EQ(ToHex(fields::Encode(Alive{300, false, Alive::kNobody})), "ac0200ffffffff0f");
  EXPECT_EQ(ToHex(fields::Encode(AbortMessage{Status(Code::kAborted, "why"), 2})), "0a0377687902");
  EXPECT_EQ(ToHex(fields::Encode(kPiece)), "2c01000000000000000010000000000003010200000003000000");
}

TEST(GroupMessages, TheDocumentsHaveTheirFields) {
  EXPECT_EQ(
      (fields::PageFault<Greet, PieceHeader, BucketHeader, Alive, AbortMessage>(LEAT_FORMATS "frame.md")),
      "");
}

TEST(GroupMessages, ThatBreakTheirRulesAreRefused) {
  const auto error = [](const auto& message) {
    using Message = std::decay_t<decltype(message)>;
    return fields::Decode<Message>(fields::Encode(message), "it").status().message();
  };
  EXPECT_EQ(error(Greet{1, 4, 4, ChannelKind::kData}), "it: rank is 4, at most 3");
  EXPECT_EQ(error(Greet{1, 0, 0, ChannelKind::kData}), "it: members is 0, at least 1");
  EXPECT_EQ(error(Greet{1, 1, 0, static_cast<ChannelKind>(2)}), "it: kind is 2");
  EXPECT_EQ(error(AbortMessage{Status(), 0}), "it: why is no error");
  PieceHeader piece = kPiece;
  piece.path = static_cast<protocol::ReducePath>(4);
  EXPECT_EQ(error(piece), "it: path is 4");
  EXPECT_FALSE(fields::Decode<PieceHeader>(ByteView(fields::Encode(kPiece)).first(25), "it").ok());
}

}  // namespace
}  // namespace leat::collective
