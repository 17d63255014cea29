#include "protocol/leases/rounds/rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/rng.h"

namespace leat::protocol {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;

class LaneSharesTest : public ::testing::Test {
 protected:
  void Workers(uint64_t count) {
    workers_.clear();
    for (uint64_t node = 1; node <= count; ++node) workers_.push_back(NodeId(node));
    sums_.resize(count);
    shares_.SetWorkers(workers_);
  }
  // For some seconds, each of the workers computes for half of the time.
  void Train(const std::vector<double>& batch_s, int for_s = 16) {
    for (int second = 0; second < for_s; ++second) {
      now_ += seconds(1);
      for (size_t rank = 0; rank < batch_s.size(); ++rank) {
        Sums& sums = sums_[rank];
        sums.batches += 0.5 / batch_s[rank];
        sums.waited_s += 0.5;
        shares_.OnProgress(now_, workers_[rank], static_cast<uint64_t>(sums.batches), sums.waited_s);
      }
    }
  }
  std::vector<uint32_t> Counts(uint32_t width) const {
    std::vector<uint32_t> counts;
    uint32_t next = 0;
    for (uint32_t rank = 0; rank < workers_.size(); ++rank) {
      const auto [begin, end] = shares_.LanesOf(rank, width);
      EXPECT_EQ(begin, next) << "each lane is one worker's";
      counts.push_back(end - begin);
      next = end;
      const auto [fewest, most] = shares_.CountOf(rank, width);
      EXPECT_LE(fewest, counts.back());
      EXPECT_GE(most, counts.back());
    }
    EXPECT_EQ(next, width);
    return counts;
  }

  struct Sums {
    double batches = 0, waited_s = 0;
  };
  LaneShares shares_;
  std::vector<NodeId> workers_;
  std::vector<Sums> sums_;
  Time now_ = seconds(100);
};

TEST_F(LaneSharesTest, AreEvenWhileSpeedsAreUnknown) {
  Workers(3);
  shares_.Choose(8);
  EXPECT_THAT(Counts(8), ElementsAre(3, 3, 2));
  EXPECT_THAT(Counts(2), ElementsAre(1, 1, 0));
  Train({0.1, 0.3});  // nothing of the third
  shares_.Choose(8);
  EXPECT_THAT(Counts(8), ElementsAre(3, 3, 2));
  Train({0.1, 0.3, 0.1}, 1);
  shares_.Choose(8);
  EXPECT_THAT(Counts(8), ElementsAre(3, 3, 2)) << "nothing of it but its first report";
}

TEST_F(LaneSharesTest, AFasterWorkerHasMoreLanes) {
  Workers(2);
  Train({0.05, 0.15});
  shares_.Choose(8);
  EXPECT_THAT(Counts(8), ElementsAre(6, 2));
  EXPECT_THAT(Counts(6), ElementsAre(3, 3)) << "a step of another width, at the end of the stream";
  EXPECT_FALSE(shares_.even(8));
  EXPECT_TRUE(shares_.even(6));
  EXPECT_EQ(shares_.CountOf(0, 8), std::pair(6u, 6u));
  EXPECT_EQ(shares_.CountOf(0, 7), std::pair(3u, 4u));
  Workers(3);
  EXPECT_THAT(Counts(8), ElementsAre(3, 3, 2)) << "until the new one's speed is known";
}

TEST_F(LaneSharesTest, EachWorkerHasALane) {
  Workers(3);
  Train({0.01, 1, 0.01});
  shares_.Choose(3);
  EXPECT_THAT(Counts(3), ElementsAre(1, 1, 1));
  shares_.Choose(5);
  EXPECT_THAT(Counts(5), ElementsAre(2, 2, 1)) << "speeds are looked at once";
  Train({0.01, 0.2, 0.01});
  shares_.Choose(5);
  EXPECT_THAT(Counts(5), ElementsAre(2, 1, 2));
}

TEST_F(LaneSharesTest, ChangeOnlyIfItIsWorthIt) {
  Workers(2);
  Train({0.1, 0.11});
  shares_.Choose(16);
  EXPECT_THAT(Counts(16), ElementsAre(8, 8));
  Train({0.05, 0.1});
  Train({0.05, 0.1});
  shares_.Choose(16);
  const auto uneven = Counts(16);
  EXPECT_GT(uneven[0], uneven[1]);
  Train({0.055, 0.1});
  shares_.Choose(16);
  EXPECT_EQ(Counts(16), uneven);
  for (int i = 0; i < 5; ++i) Train({0.1, 0.1});
  shares_.Choose(16);
  EXPECT_THAT(Counts(16), ElementsAre(8, 8));
}

// Against all ways to share the lanes.
TEST_F(LaneSharesTest, NoOtherSharesAreFaster) {
  Rng rng(3);
  for (int i = 0; i < 200; ++i) {
    const auto width = 4 + static_cast<uint32_t>(rng.Below(6));
    const std::vector<double> batch_s = {0.02 + 0.1 * rng.Uniform(), 0.02 + 0.1 * rng.Uniform(),
                                         0.02 + 0.1 * rng.Uniform()};
    shares_ = {};
    sums_.clear();
    Workers(3);
    Train(batch_s, 30);
    shares_.Choose(width);
    const auto time = [&](uint32_t a, uint32_t b, uint32_t c) {
      return std::max({a * batch_s[0], b * batch_s[1], c * batch_s[2]});
    };
    double best = std::numeric_limits<double>::infinity();
    for (uint32_t a = 1; a < width; ++a) {
      for (uint32_t b = 1; a + b < width; ++b) best = std::min(best, time(a, b, width - a - b));
    }
    const auto counts = Counts(width);
    // Speeds are known to about a sixteenth, because batches are whole numbers.
    EXPECT_LE(time(counts[0], counts[1], counts[2]), 1.2 * best / LaneShares::kWorthIt);
  }
}

TEST_F(LaneSharesTest, EachLaneIsAWorkersWhateverIsReported) {
  Workers(2);
  const double infinite = std::numeric_limits<double>::infinity();
  for (const double waited : {0.0, std::nan(""), -1e300, 1e300, infinite, -infinite}) {
    for (const uint64_t batches : {uint64_t{0}, uint64_t{500}, ~uint64_t{0}}) {
      for (int i = 0; i < 3; ++i) {
        now_ += seconds(10);
        shares_.OnProgress(now_, workers_[0], batches, waited);
        Train({0.05, 0.15}, 3);
        shares_.Choose(8);
        EXPECT_THAT(Counts(8), ::testing::Each(::testing::Ge(1u)));
      }
    }
  }
}

}  // namespace
}  // namespace leat::protocol
