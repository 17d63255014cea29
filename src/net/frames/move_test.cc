#include "net/frames/messages.h"

#include <gtest/gtest.h>

#include "base/encoding/printable.h"
#include "base/fields/files/testing.h"
#include "base/fields/testing.h"
#include "net/frames/testing.h"

namespace leat::wire {
namespace {

using testing::RefusesOtherLengths;

MoveRequest Request() {
  return {.move = 7,
          .index = 2,
          .count = 3,
          .slice = SliceId(5),
          .incarnation = Incarnation(11),
          .version = 1ull << 40,
          .events = 13,
          .saved = 17,
          .state_bytes = kMaxSliceStateBytes};
}

SliceState State() {
  protocol::Ledger ledger(std::vector<protocol::Position>{{0, 0}, {1, 100}});
  protocol::Cut cut;
  cut.partition = 1;
  cut.after = cut.begin = {1, 110};
  cut.end = 150;
  cut.batch_size = 8;
  EXPECT_EQ(ledger.Record(cut, 3), protocol::Ledger::Entry::kNew);
  return {ledger, {{.step = 4, .width = 70, .needed = 65, .counted = {1, 2}}}};
}

TEST(MoveMessageTest, SurvivesItsEncoding) {
  EXPECT_EQ(fields::CodecFault(Request()), "");
  EXPECT_EQ(fields::CodecFault<MoveRequest>(100), "");
  EXPECT_EQ(fields::CodecFault<MoveReply>(100), "");
  const auto state = fields::Decode<SliceState>(fields::Encode(State()), "state");
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(*state, State());
}

TEST(MoveMessageTest, BytesAreThoseOfTheTable) {
  EXPECT_EQ(ToHex(fields::Encode(Request())), "070203050b8080808080200d1180808020");
  EXPECT_EQ(ToHex(fields::Encode(MoveReply{7, {}})), "0700");
  EXPECT_EQ(ToHex(fields::Encode(MoveReply{300, Status(Code::kAborted, "given up")})),
            "ac020a08676976656e207570");
  EXPECT_EQ(ToHex(fields::Encode(State())),
            "0200000001640101016e016e96010000000000000000080000000000000000010800000000000000"
            "010446410201000000000000000200000000000000");
}

TEST(MoveMessageTest, TheDocumentsHaveItsFields) {
  EXPECT_EQ((fields::PageFault<MoveRequest, MoveReply, SliceState>(LEAT_FORMATS "frame.md")), "");
}

TEST(MoveMessageTest, RefusesAStateThatIsTruncatedOrLonger) {
  RefusesOtherLengths(fields::Encode(State()),
                      [](ByteView bytes) { return fields::Decode<SliceState>(bytes, "state"); });
}

TEST(MoveMessageTest, RefusesSizesAboveTheLimits) {
  const auto error = [](const MoveRequest& request) {
    return fields::Decode<MoveRequest>(fields::Encode(request), "move").status().message();
  };
  MoveRequest request = Request();
  request.state_bytes = kMaxSliceStateBytes + 1;
  EXPECT_EQ(error(request), "move: state_bytes is 67108865, at most 67108864");
  request = Request();
  request.index = request.count;
  EXPECT_EQ(error(request), "move: count is 3, at least 4");
  request.count = kMaxMovedSlices + 1;
  EXPECT_EQ(error(request), "move: count is 65537, at most 65536");
  const MoveReply verbose{1, Status(Code::kInternal, std::string(10'000, 'x'))};
  const auto cut = fields::Decode<MoveReply>(fields::Encode(verbose), "answer");
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(cut->status.message().size(), 4096u);
}

}  // namespace
}  // namespace leat::wire
