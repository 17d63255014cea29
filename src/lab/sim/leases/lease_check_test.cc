#include "lab/sim/leases/lease_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace leat::sim {
namespace {

using namespace protocol;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Cut CutOf(uint64_t begin, uint64_t end) {
  return MakeCut({}, 1, {0, begin}, {0, begin}, end);
}

TEST(LabelCheck, NamesALeaseThatContradictsTheJournalOrAnotherLease) {
  LabelCheck check;
  check.OnJournaled({1, {{10, 0, 5}, {20, 3, 8}}});
  EXPECT_EQ(check.OnLeased(CutOf(0, 10), LabelRange{0, 5}), "");
  EXPECT_EQ(check.OnLeased(CutOf(0, 10), LabelRange{0, 5}), "") << "again";
  EXPECT_THAT(check.OnLeased(CutOf(0, 10), LabelRange{0, 8}),
              HasSubstr("labels 0 to 8, before with labels 0 to 5"));
  EXPECT_THAT(check.OnLeased(CutOf(0, 10), std::nullopt), HasSubstr("without labels"));
  EXPECT_THAT(check.OnLeased(CutOf(0, 11), LabelRange{0, 8}), HasSubstr("after one that ended at 10"));
  EXPECT_EQ(check.OnLeased(CutOf(9, 11), LabelRange{0, 8}), "");
  EXPECT_THAT(check.OnLeased(CutOf(10, 20), LabelRange{0, 8}), HasSubstr("journaled are labels 3 to 8"));
  EXPECT_THAT(check.OnLeased(CutOf(15, 21), LabelRange{3, 9}), HasSubstr("marks are journaled up to 20"));
  check.OnJournaled({1, {{30, 3, 9}}});
  EXPECT_EQ(check.OnLeased(CutOf(15, 21), LabelRange{3, 9}), "");
}

TEST(LabelStream, MarksAllEventsInOrderAndGoesOnBehindAMark) {
  constexpr uint64_t kEnd = 3000;
  LabelStream stream(7, milliseconds(300));
  Time now{0};
  size_t repeated = 0;
  // All marks after the last one, a few at a time.
  const auto run = [&](std::optional<LabelMark> last) {
    std::vector<LabelMark> all;
    for (int polls = 0; polls < 1000 && (!last || last->events < kEnd); ++polls) {
      now += milliseconds(50);
      StreamRange range{0, 1000, kEnd, true};
      stream.Mark(now, {.last = last, .room = 3}, &range);
      const size_t before = all.size();
      for (const LabelMark& mark : range.marks) {
        if (std::ranges::count(all, mark) > 0) {
          ++repeated;
          continue;
        }
        EXPECT_TRUE(!last || mark.Follows(*last));
        all.push_back(mark);
        last = mark;
      }
      EXPECT_LE(all.size() - before, 3u);
    }
    EXPECT_EQ(all.back().events, kEnd);
    return all;
  };
  stream.Start({LabelMarksWanted()});
  StreamRange range{0, 1000, kEnd, true};
  stream.Mark(now, {.last = std::nullopt, .room = 3}, &range);
  EXPECT_THAT(range.marks, IsEmpty()) << "they come later than the events";
  const auto all = run(std::nullopt);
  EXPECT_GT(all.front().events, 1000u);
  ASSERT_GT(all.size(), 10u);
  EXPECT_GT(repeated, 0u);

  const auto middle = all.begin() + 5;
  stream.Start({LabelMarksWanted{.last = *middle, .room = 3}});
  const auto again = run(*middle);
  EXPECT_TRUE(again.front().Follows(*middle));
  EXPECT_NE(again, std::vector<LabelMark>(middle + 1, all.end())) << "a restart makes other marks";
}

}  // namespace
}  // namespace leat::sim
