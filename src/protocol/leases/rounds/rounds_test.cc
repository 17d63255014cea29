#include "protocol/leases/rounds/rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>

#include "base/rng.h"

namespace leat::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

StrategyConfig SyncRounds(uint32_t lanes, uint32_t backup = 0) {
  StrategyConfig strategy;
  strategy.kind = StrategyKind::kSync;
  strategy.lanes = lanes - backup;
  strategy.backup = backup;
  return strategy;
}

CutRules Rules(uint32_t batch, uint32_t split, uint32_t run = 1, uint32_t epochs = 1) {
  return {.hash = 9, .batch_size = batch, .split_batches = split, .run = run, .epochs = epochs};
}

// Makes rounds and records what they cover.
class Stream {
 public:
  Stream(const StrategyConfig& strategy, const CutRules& rules, std::vector<uint64_t> ends, bool sealed)
      : strategy_(strategy), rules_(rules) {
    for (uint64_t end : ends) {
      const uint64_t first = 1000 * material.partitions.size();
      passes_.push_back(PassesFrom(first, rules.epochs));
      material.partitions.push_back({{0, first}, &passes_.back(), first + end, sealed, false});
    }
  }

  std::optional<RoundMade> Make() {
    auto round = MakeRound(strategy_, rules_, step, material);
    if (round) Take(*round);
    return round;
  }

  // Checks the contract of a round.
  void Take(const RoundMade& round) {
    EXPECT_EQ(round.first_step, step);
    const size_t width = round.lanes.size();
    ASSERT_GE(width, 1u);
    EXPECT_LE(width, strategy_.total_lanes());
    EXPECT_EQ(round.needed, std::min<size_t>(strategy_.lanes, width));
    const uint32_t length = round.lanes[0].assigned.count();
    ASSERT_GE(length, 1u);
    EXPECT_LE(length, std::max(1u, rules_.split_batches / rules_.run));
    if (width < strategy_.total_lanes()) {
      EXPECT_EQ(length, 1u) << "more steps would have filled no more lanes";
    }
    for (const auto& [cut, assigned] : round.lanes) {
      EXPECT_TRUE(cut.valid());
      EXPECT_EQ(assigned.size(), cut.runs());
      EXPECT_EQ(assigned.count(), length) << "as long as each other";
      auto left = std::find_if(material.left.begin(), material.left.end(),
                               [&cut = cut](const Leftover& l) { return l.cut == cut; });
      if (left == material.left.end()) {
        auto& p = material.partitions[cut.partition];
        EXPECT_TRUE(assigned.full());
        EXPECT_EQ(cut.after, p.at);
        EXPECT_LE(cut.end, p.end);
        EXPECT_EQ(cut.hash, rules_.hash);
        p.at = cut.next();
      } else {
        for (uint32_t run = 0; run < assigned.size(); ++run) {
          if (assigned.Has(run)) {
            EXPECT_TRUE(left->runs.Has(run));
          }
        }
        left->runs &= assigned.Complement();
        if (left->runs.empty()) material.left.erase(left);
      }
      for (uint32_t run = 0; run < assigned.size(); ++run) {
        if (!assigned.Has(run)) continue;
        EXPECT_TRUE(trained_.insert({cut.partition, cut.begin, run}).second) << "twice";
        events += cut.EventsOf(run);
      }
    }
    step += length;
    widths.push_back(width);
    lengths.push_back(length);
  }

  // The run was late.
  void Late(const RoundMade::Lane& part, uint32_t run) {
    trained_.erase({part.cut.partition, part.cut.begin, run});
    events -= part.cut.EventsOf(run);
    auto left = std::find_if(material.left.begin(), material.left.end(),
                             [&](const Leftover& l) { return l.cut == part.cut; });
    if (left == material.left.end()) {
      left = material.left.insert(left, {part.cut, RunSet(part.cut.runs())});
    }
    left->runs.Add(run);
  }

  RoundInput material;
  uint64_t step = 0;
  uint64_t events = 0;
  std::vector<size_t> widths;
  std::vector<uint32_t> lengths;

 private:
  StrategyConfig strategy_;
  CutRules rules_;
  std::deque<Passes> passes_;
  std::set<std::tuple<uint32_t, Position, uint32_t>> trained_;
};

TEST(RoundsTest, EveryLaneHasASplitAndPartitionsAdvanceTogether) {
  Stream stream(SyncRounds(4), Rules(10, 8), {320, 320}, true);
  const auto round = stream.Make();
  ASSERT_TRUE(round);
  std::vector<std::pair<uint32_t, uint64_t>> begins;
  for (const auto& part : round->lanes) {
    begins.push_back({part.cut.partition, part.cut.begin.offset});
    EXPECT_EQ(part.cut.batches(), 8u);
  }
  EXPECT_THAT(begins,
              ElementsAre(std::pair(0u, 0u), std::pair(1u, 1000u), std::pair(0u, 80u), std::pair(1u, 1080u)));
  EXPECT_TRUE(stream.Make());
  EXPECT_FALSE(stream.Make());
  EXPECT_EQ(stream.events, 640u);
}

TEST(RoundsTest, WhereASplitForEachLaneIsNotThereAllAreShorter) {
  Stream stream(SyncRounds(4), Rules(10, 64), {530}, true);  // 53 batches
  while (stream.Make()) {
  }
  EXPECT_THAT(stream.lengths, ElementsAre(13, 1));
  EXPECT_THAT(stream.widths, ElementsAre(4, 1));
  EXPECT_EQ(stream.events, 530u);
}

TEST(RoundsTest, LanesAreFilledFromTheNextPass) {
  Stream stream(SyncRounds(4), Rules(10, 64, 1, 3), {70}, true);  // 7 batches
  while (stream.Make()) {
  }
  EXPECT_THAT(stream.widths, ElementsAre(4, 4, 4, 1));
  EXPECT_THAT(stream.lengths, ElementsAre(1, 1, 3, 1));
  EXPECT_EQ(stream.events, 210u);
}

// A run has `run` batches, and fewer only at the end of the stream.
TEST(RoundsTest, RunsOfSeveralBatches) {
  Stream stream(SyncRounds(2), Rules(10, 64, 5), {1 + 2 * 12 * 50}, true);
  auto round = stream.Make();
  EXPECT_EQ(round->lanes[0].cut.batches(), 60u) << "12 whole runs";
  EXPECT_EQ(round->lanes[0].assigned.count(), 12u);
  round = stream.Make();
  EXPECT_EQ(round->lanes.size(), 1u);
  EXPECT_EQ(round->lanes[0].cut.events(), 1u);
}

TEST(RoundsTest, NothingOfNothing) {
  EXPECT_FALSE(Stream(SyncRounds(2), Rules(10, 4), {0, 0}, true).Make());
  EXPECT_FALSE(Stream(SyncRounds(2), Rules(10, 4, 1, 7), {0}, true).Make());
  EXPECT_FALSE(Stream(SyncRounds(2), Rules(10, 4), {0}, false).Make());
  Stream waiting(SyncRounds(2), Rules(10, 4), {0}, false);
  waiting.material.drain = waiting.material.partitions[0].overdue = true;
  EXPECT_FALSE(waiting.Make());
}

// ---- leftovers

TEST(RoundsTest, WhatIsLeftOverComesFirstAndMakesTheRoundAsLong) {
  Stream stream(SyncRounds(3, 1), Rules(10, 8), {1000}, true);
  const auto first = stream.Make();
  for (uint32_t run : {1, 4, 6}) stream.Late(first->lanes[2], run);
  const auto second = stream.Make();
  EXPECT_EQ(second->lanes[0].cut, first->lanes[2].cut);
  EXPECT_EQ(second->lanes[0].assigned.count(), 3u);
  EXPECT_TRUE(second->lanes[0].assigned.Has(4));
  EXPECT_EQ(second->lanes[1].cut.runs(), 3u);
  EXPECT_EQ(stream.Make()->lanes[0].cut.runs(), 8u);
}

TEST(RoundsTest, OneSplitIsLeftOverForAllLanes) {
  Stream stream(SyncRounds(3, 1), Rules(10, 10), {300}, true);
  const auto first = stream.Make();
  for (uint32_t run = 0; run < 10; ++run) stream.Late(first->lanes[1], run);
  const auto second = stream.Make();
  ASSERT_EQ(second->lanes.size(), 3u);
  for (const auto& part : second->lanes) EXPECT_EQ(part.assigned.count(), 3u);
  EXPECT_TRUE(second->lanes[2].assigned.Has(8));
  const auto third = stream.Make();
  EXPECT_EQ(third->lanes.size(), 1u);
  EXPECT_TRUE(third->lanes[0].assigned.Has(9));
  EXPECT_FALSE(stream.Make());
}

// ---- growing streams

TEST(RoundsTest, ALiveStreamIsWaitedForUntilItHasMadeAWait) {
  Stream stream(SyncRounds(2), Rules(10, 4), {79}, false);
  EXPECT_FALSE(stream.Make());
  stream.material.partitions[0].end = 80;
  EXPECT_EQ(stream.Make()->lanes[1].cut.runs(), 4u);

  auto& p = stream.material.partitions[0];
  p.end = 157;
  EXPECT_FALSE(stream.Make());
  p.overdue = stream.material.drain = true;
  EXPECT_EQ(stream.Make()->lanes[1].cut.runs(), 3u) << "all lanes, of whole runs";
  EXPECT_EQ(p.at.offset, 140u);
  EXPECT_EQ(stream.Make()->lanes.size(), 1u) << "one whole batch";
  EXPECT_EQ(stream.Make()->lanes.at(0).cut.events(), 7u);
  EXPECT_FALSE(stream.Make());
}

TEST(RoundsTest, APartitionThatIsStillDoesNotHoldUpTheOthers) {
  Stream stream(SyncRounds(2), Rules(10, 4), {0, 80, 5}, false);
  const auto round = stream.Make();
  ASSERT_TRUE(round);
  EXPECT_EQ(round->lanes[0].cut.partition, 1u);
  EXPECT_EQ(round->lanes[1].cut.partition, 1u);
  stream.material.drain = true;
  EXPECT_FALSE(stream.Make()) << "those five events have not waited long";
}

// ---- any stream

TEST(RoundsTest, CoverASealedStreamOnce) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const uint32_t backup = static_cast<uint32_t>(rng.Below(3));
    const auto strategy = SyncRounds(static_cast<uint32_t>(1 + rng.Below(6)) + backup, backup);
    const auto rules =
        Rules(static_cast<uint32_t>(1 + rng.Below(20)), static_cast<uint32_t>(1 + rng.Below(9)),
              static_cast<uint32_t>(1 + rng.Below(3)), static_cast<uint32_t>(1 + rng.Below(3)));
    std::vector<uint64_t> ends;
    uint64_t events = 0;
    for (uint64_t i = 0; i <= rng.Below(4); ++i) {
      ends.push_back(rng.Below(700));
      events += ends.back() * rules.epochs;
    }
    Stream stream(strategy, rules, ends, true);
    size_t partial = 0;
    while (const auto round = stream.Make()) {
      if (round->lanes.size() < strategy.total_lanes()) ++partial;
      // A pass begins when all partitions have ended the previous one.
      uint32_t least = ~0u, most = 0;
      for (const auto& p : stream.material.partitions) {
        if (p.end == p.passes->front().begin) continue;
        most = std::max(most, p.at.epoch);
        if (p.at.offset < p.end) least = std::min(least, p.at.epoch);
      }
      if (least != ~0u) {
        EXPECT_LE(most, least);
      }
      // Any `backup` lanes of each step may be late.
      const uint32_t length = round->lanes[0].assigned.count();
      std::vector<std::vector<uint32_t>> runs;
      for (const auto& part : round->lanes) {
        runs.emplace_back();
        for (uint32_t run = 0; run < part.assigned.size(); ++run) {
          if (part.assigned.Has(run)) runs.back().push_back(run);
        }
      }
      for (uint32_t k = 0; k < length; ++k) {
        for (size_t i = round->needed; i < round->lanes.size(); ++i) {
          const size_t lane = (rng.Below(3) + i) % round->lanes.size();
          const auto late =
              std::find_if(stream.material.left.begin(), stream.material.left.end(), [&](const Leftover& l) {
                return l.cut == round->lanes[lane].cut && l.runs.Has(runs[lane][k]);
              });
          if (late == stream.material.left.end()) stream.Late(round->lanes[lane], runs[lane][k]);
        }
      }
      ASSERT_LT(stream.widths.size(), 100000u);
    }
    EXPECT_EQ(stream.events, events);
    if (backup == 0) {
      EXPECT_LE(partial, 1u) << "only the last step";
    }
  }
}

TEST(RoundsTest, CoverAStreamThatGrowsOnce) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    Stream stream(SyncRounds(static_cast<uint32_t>(1 + rng.Below(5))),
                  Rules(static_cast<uint32_t>(1 + rng.Below(20)), static_cast<uint32_t>(1 + rng.Below(9)),
                        static_cast<uint32_t>(1 + rng.Below(3)), static_cast<uint32_t>(1 + rng.Below(2))),
                  {0, 0, 0}, false);
    for (int i = 0; i < 60; ++i) {
      auto& p = stream.material.partitions[rng.Below(3)];
      if (!p.sealed) p.end += rng.Below(100);
      if (i > 40 && rng.Chance(0.2)) p.sealed = true;
      auto& waiting = stream.material.partitions[rng.Below(3)];
      waiting.overdue = rng.Chance(0.3) && waiting.end > waiting.at.offset;
      stream.material.drain = waiting.overdue;
      while (rng.Chance(0.7) && stream.Make()) {
      }
      waiting.overdue = stream.material.drain = false;
    }
    uint64_t events = 0;
    for (auto& p : stream.material.partitions) p.sealed = true;
    while (stream.Make()) {
    }
    for (auto& p : stream.material.partitions) {
      const uint64_t first = p.passes->front().begin;
      events += (p.end - first) * (p.end > first ? p.at.epoch + 1 : 1);
    }
    EXPECT_EQ(stream.events, events);
  }
}

}  // namespace
}  // namespace leat::protocol
