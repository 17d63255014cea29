#include "wire/move.h"

#include <gtest/gtest.h>

#include "wire/testing.h"

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
  const auto request = DecodeMoveRequest(Encode(Request()));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(*request, Request());
  for (const MoveReply& reply : {MoveReply{7, {}}, MoveReply{8, Status(Code::kAborted, "given up")}}) {
    const auto decoded = DecodeMoveReply(Encode(reply));
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(*decoded, reply);
  }
  const auto state = DecodeSliceState(Encode(State()));
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(*state, State());
}

TEST(MoveMessageTest, RefusesWhatIsTruncatedOrLonger) {
  RefusesOtherLengths(Encode(Request()), DecodeMoveRequest);
  RefusesOtherLengths(Encode(MoveReply{8, Status(Code::kAborted, "given up")}), DecodeMoveReply);
  RefusesOtherLengths(Encode(State()), DecodeSliceState);
}

TEST(MoveMessageTest, RefusesSizesAboveTheLimits) {
  MoveRequest request = Request();
  request.state_bytes = kMaxSliceStateBytes + 1;
  EXPECT_FALSE(DecodeMoveRequest(Encode(request)).ok());
  request = Request();
  request.index = request.count;
  EXPECT_FALSE(DecodeMoveRequest(Encode(request)).ok());
  request.count = kMaxMovedSlices + 1;
  EXPECT_FALSE(DecodeMoveRequest(Encode(request)).ok());
  const MoveReply verbose{1, Status(Code::kInternal, std::string(10'000, 'x'))};
  EXPECT_TRUE(DecodeMoveReply(Encode(verbose)).ok()) << "a long reason is cut off";
}

}  // namespace
}  // namespace leat::wire
