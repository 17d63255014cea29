#include "stream/join/labels.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"

namespace leat::stream {
namespace {

TEST(TimeSequence, FindsWhatALoopFinds) {
  Rng rng(1);
  for (const int64_t disorder : {1, 10, 1000}) {
    TimeSequence sequence;
    std::vector<int64_t> times;
    for (int round = 0; round < 700; ++round) {
      times.push_back(round + static_cast<int64_t>(rng.Below(static_cast<uint64_t>(disorder))));
      sequence.Append(times.back());
      if (round % 3 == 0) sequence.DropFirst();
      ASSERT_EQ(sequence.end(), times.size());
      const uint64_t from = sequence.begin() + rng.Below(sequence.end() - sequence.begin() + 1);
      const auto low = static_cast<int64_t>(rng.Below(800));
      const int64_t high = low + static_cast<int64_t>(rng.Below(20));
      uint64_t at = from, steps = 0;
      while (at < times.size() && (times[at] < low || times[at] > high)) ++at;
      ASSERT_EQ(sequence.Find(from, low, high, &steps), at) << "disorder " << disorder << " round " << round;
    }
  }
}

TEST(TimeSequence, TakesFewSteps) {
  constexpr int64_t kTimes = 1'000'000;
  TimeSequence sequence;
  for (int64_t i = 0; i < kTimes; ++i) sequence.Append(i ^ 5);
  for (const int64_t time : {int64_t{0}, kTimes / 2, kTimes - 1, kTimes + 100}) {
    uint64_t steps = 0;
    const uint64_t at = sequence.Find(0, time, time, &steps);
    EXPECT_EQ(at, time < kTimes ? static_cast<uint64_t>(time ^ 5) : sequence.end());
    EXPECT_LE(steps, 200u) << time;
  }
}

}  // namespace
}  // namespace leat::stream
