#include "protocol/cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/encoding/printable.h"
#include "base/fields/codec.h"
#include "base/fields/description.h"
#include "base/fields/most_bytes.h"
#include "base/rng.h"
#include "protocol/ledger.h"
#include "protocol/random/testing.h"

namespace leat::protocol {
namespace {

CutRules RulesOf(uint32_t batch, uint32_t batches, uint32_t epochs = 1) {
  return {.hash = 7, .batch_size = batch, .split_batches = batches, .shuffle_seed = 3, .epochs = epochs};
}

Cut Some(uint64_t begin = 100, uint64_t end = 150, uint32_t batch = 16) {
  Cut cut;
  cut.partition = 2;
  cut.begin = cut.after = {1, begin};
  cut.end = end;
  cut.hash = 99;
  cut.batch_size = batch;
  cut.shuffle_seed = 5;
  return cut;
}

TEST(NextCut, CoversASealedPartitionOnceInEveryEpoch) {
  Rng rng(1);
  for (int round = 0; round < 200; ++round) {
    const uint64_t first = rng.Below(1000), end = first + rng.Below(500);
    const CutRules rules =
        RulesOf(1 + static_cast<uint32_t>(rng.Below(20)), 1 + static_cast<uint32_t>(rng.Below(5)),
                1 + static_cast<uint32_t>(rng.Below(3)));
    Position at{0, first};
    std::vector<uint32_t> seen(rules.epochs * (end - first), 0);
    while (auto cut = NextCut(rules, 0, at, PassesFrom(first, rules.epochs), end, true, false)) {
      ASSERT_TRUE(cut->valid());
      ASSERT_EQ(cut->after, at);
      ASSERT_LT(cut->begin.epoch, rules.epochs);
      for (uint64_t o = cut->begin.offset; o < cut->end; ++o)
        ++seen[cut->begin.epoch * (end - first) + o - first];
      EXPECT_LE(cut->batches(), rules.split_batches);
      at = cut->next();
    }
    EXPECT_TRUE(Exhausted(PassesFrom(first, rules.epochs), at, end, true));
    EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](uint32_t n) { return n == 1; }));
  }
}

// A full split does not depend on what follows it, or on whether the partition is sealed.
TEST(NextCut, FullSplitsDependOnThePositionAlone) {
  const CutRules rules = RulesOf(10, 4);
  const auto cut = NextCut(rules, 1, {0, 120}, PassesFrom(20, 1), 160, false, false);
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->end, 160u);
  for (uint64_t end : {160, 161, 500}) {
    for (bool sealed : {false, true}) {
      for (bool short_tail : {false, true}) {
        EXPECT_EQ(NextCut(rules, 1, {0, 120}, PassesFrom(20, 1), end, sealed, short_tail), cut);
      }
    }
  }
}

TEST(NextCut, ALiveTailWaitsOrGivesItsWholeBatches) {
  const CutRules rules = RulesOf(10, 4);
  EXPECT_FALSE(NextCut(rules, 0, {0, 0}, PassesFrom(0, 1), 39, false, false));
  EXPECT_EQ(NextCut(rules, 0, {0, 0}, PassesFrom(0, 1), 39, false, true)->end, 30u);
  EXPECT_EQ(NextCut(rules, 0, {0, 30}, PassesFrom(0, 1), 39, false, true)->end, 39u)
      << "less than a batch, but it shall not wait";
  EXPECT_FALSE(NextCut(rules, 0, {0, 39}, PassesFrom(0, 1), 39, false, true));
  EXPECT_EQ(NextCut(rules, 0, {0, 0}, PassesFrom(0, 1), 39, true, false)->end, 39u);
}

TEST(NextCut, ContinuesWhenTheStreamOrTheEpochsGrowLater) {
  const Position reached{0, 40};
  EXPECT_TRUE(Exhausted(PassesFrom(0, 1), reached, 40, true));
  EXPECT_FALSE(NextCut(RulesOf(10, 4), 0, reached, PassesFrom(0, 1), 40, true, true));
  const auto grown = NextCut(RulesOf(10, 4), 0, reached, PassesFrom(0, 1), 45, true, false);
  ASSERT_TRUE(grown);
  EXPECT_EQ(grown->begin, reached);
  const auto again = NextCut(RulesOf(10, 4, 2), 0, reached, PassesFrom(0, 2), 40, true, false);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->after, reached);
  EXPECT_EQ(again->begin, (Position{1, 0}));
  EXPECT_FALSE(NextCut(RulesOf(10, 4, 2), 0, reached, PassesFrom(0, 2), 40, false, true))
      << "only a sealed stream has an end";
}

// How often each event is cut, from `at` on.
std::vector<uint32_t> Counted(const CutRules& rules, const Passes& passes, uint64_t end, Position* at) {
  std::vector<uint32_t> seen(end, 0);
  while (const auto cut = NextCut(rules, 0, *at, passes, end, true, false)) {
    EXPECT_TRUE(cut->valid());
    EXPECT_EQ(cut->after, *at);
    for (uint64_t o = cut->begin.offset; o < cut->end; ++o) ++seen[o];
    *at = cut->next();
  }
  return seen;
}

TEST(Passes, AddedEventsHaveAsManyPassesAsTheOthers) {
  const CutRules rules = RulesOf(10, 2);
  Passes passes = Continued(PassesFrom(0, 3), 3, {0, 0}, 50, true);
  EXPECT_EQ(passes, (Passes{{3, 0, 50}}));
  Position at{0, 0};
  EXPECT_EQ(Counted(rules, passes, 50, &at), std::vector<uint32_t>(50, 3));
  EXPECT_EQ(at, (Position{2, 50}));
  // It grows twice, the second time before it has been passed over again, and then gets another epoch.
  passes = Continued(passes, 3, at, 70, true);
  EXPECT_EQ(passes, (Passes{{3, 0, 50}, {3, 50, 70}}));
  const auto cut = NextCut(rules, 0, at, passes, 70, true, false);
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->begin, (Position{3, 50}));
  at = cut->next();
  passes = Continued(passes, 3, at, 75, true);
  std::vector<uint32_t> seen = Counted(rules, passes, 75, &at);
  for (uint64_t o = cut->begin.offset; o < cut->end; ++o) ++seen[o];
  std::vector<uint32_t> expected(75, 3);
  std::fill_n(expected.begin(), 50, 0);
  EXPECT_EQ(seen, expected);
  passes = Continued(passes, 4, at, 75, true);
  EXPECT_EQ(Counted(rules, passes, 75, &at), std::vector<uint32_t>(75, 1));
  EXPECT_TRUE(Exhausted(passes, at, 75, true));
}

// Whenever a job is stopped, grows, and gets other epochs: in the end, all events were cut as often as the
// last run says, unless some were cut more often before.
TEST(Passes, EveryEventIsCutAsOftenAsTheJobHasEpochs) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const CutRules rules =
        RulesOf(1 + static_cast<uint32_t>(rng.Below(5)), 1 + static_cast<uint32_t>(rng.Below(4)));
    uint64_t end = rng.Below(60);
    uint32_t epochs = 1 + static_cast<uint32_t>(rng.Below(4));
    Passes passes = PassesFrom(0, epochs);
    Position at{0, 0};
    std::vector<uint32_t> seen;
    for (int run = 0; run < 6; ++run) {
      passes = Continued(passes, epochs, at, end, true);
      ASSERT_EQ(Continued(passes, epochs, at, end, true), passes) << "again";
      seen.resize(end, 0);
      uint64_t cuts = run < 5 && rng.Chance(0.7) ? rng.Below(40) : UINT64_MAX;
      for (; cuts > 0; --cuts) {
        const auto cut = NextCut(rules, 0, at, passes, end, true, false);
        if (!cut) break;
        ASSERT_TRUE(cut->valid() && cut->after == at);
        for (uint64_t o = cut->begin.offset; o < cut->end; ++o) ++seen[o];
        at = cut->next();
      }
      if (cuts > 0) {
        ASSERT_TRUE(Exhausted(passes, at, end, true));
        for (uint64_t o = 0; o < end; ++o) ASSERT_EQ(seen[o], epochs) << o;
      }
      if (rng.Chance(0.5)) end += rng.Below(30);
      if (rng.Chance(0.3)) epochs += static_cast<uint32_t>(rng.Below(3));
    }
  }
}

// A log: it is not known where it ends, until its writers are done.
TEST(Passes, ALiveStreamIsPassedOverAgainOnceItIsSealed) {
  Passes passes = Continued(PassesFrom(0, 2), 2, {0, 0}, 30, false);
  EXPECT_EQ(passes, PassesFrom(0, 2));
  passes = Continued(passes, 2, {0, 20}, 40, true);
  EXPECT_EQ(passes, (Passes{{2, 0, 40}}));
  // Its writers come back.
  passes = Continued(passes, 2, {1, 40}, 40, false);
  EXPECT_EQ(passes, (Passes{{2, 0, 40}}));
  EXPECT_FALSE(Exhausted(passes, {1, 40}, 40, false));
  EXPECT_FALSE(NextCut(RulesOf(10, 1), 0, {1, 40}, passes, 40, false, true));
  passes = Continued(passes, 2, {1, 40}, 45, false);
  EXPECT_EQ(passes, (Passes{{2, 0, 40}, {2, 40, UINT64_MAX}}));
  EXPECT_FALSE(NextCut(RulesOf(10, 1), 0, {1, 40}, passes, 45, false, false));
  EXPECT_EQ(NextCut(RulesOf(10, 1), 0, {1, 40}, passes, 45, false, true)->begin, (Position{2, 40}));
  passes = Continued(passes, 2, {2, 45}, 50, true);
  EXPECT_EQ(passes, (Passes{{2, 0, 40}, {2, 40, 50}}));
}

TEST(NextCut, OfAnEmptyPartitionThereIsNone) {
  EXPECT_FALSE(NextCut(RulesOf(10, 4, 5), 0, {0, 12}, PassesFrom(12, 5), 12, true, true));
  EXPECT_TRUE(Exhausted(PassesFrom(12, 5), {0, 12}, 12, true));
  EXPECT_FALSE(Exhausted(PassesFrom(12, 5), {0, 12}, 12, false));
}

TEST(NextCut, StaysWithinTheLimitsForAnyRules) {
  for (const CutRules& rules : {RulesOf(0, 0), RulesOf(~0u, ~0u), RulesOf(1, ~0u), RulesOf(~0u, 1)}) {
    const auto cut = NextCut(rules, 0, {0, 0}, PassesFrom(0, 1), uint64_t{1} << 40, false, false);
    ASSERT_TRUE(cut);
    EXPECT_TRUE(cut->valid());
  }
}

TEST(Cut, ValidRefusesWhatCannotBe) {
  EXPECT_TRUE(Some().valid());
  const auto with = [](auto change) {
    Cut cut = Some();
    change(&cut);
    return cut.valid();
  };
  EXPECT_FALSE(with([](Cut* c) { c->end = c->begin.offset; }));
  EXPECT_FALSE(with([](Cut* c) { c->end = 3; }));
  EXPECT_FALSE(with([](Cut* c) { c->end = c->begin.offset + Cut::kMaxEvents + 1; }));
  EXPECT_FALSE(with([](Cut* c) { c->batch_size = 0; }));
  EXPECT_FALSE(with([](Cut* c) { c->batch_size = ~0u; }));
  EXPECT_FALSE(with([](Cut* c) {
    c->end = c->begin.offset + Cut::kMaxBatches + 1;
    c->batch_size = 1;
  }));
  EXPECT_FALSE(with([](Cut* c) { c->after.offset -= 1; }));
  EXPECT_FALSE(with([](Cut* c) { c->after.epoch = 2; }));
  EXPECT_TRUE(with([](Cut* c) { c->after = {0, 777}; })) << "the first cut of another pass";
}

TEST(TrainingOrder, IsAPermutationThatDependsOnTheCutAlone) {
  const Cut cut = Some(100, 1100);
  std::vector<uint32_t> order, again, sorted;
  TrainingOrder(cut, &order);
  TrainingOrder(cut, &again);
  EXPECT_EQ(order, again);
  sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (uint32_t i = 0; i < sorted.size(); ++i) ASSERT_EQ(sorted[i], i);
  EXPECT_NE(order, sorted);

  for (auto change : std::initializer_list<void (*)(Cut*)>{
           [](Cut* c) { c->partition = 3; }, [](Cut* c) { c->begin.epoch = 2; },
           [](Cut* c) { c->shuffle_seed = 6; }, [](Cut* c) { c->begin.offset += 1000, c->end += 1000; }}) {
    Cut other = cut;
    change(&other);
    TrainingOrder(other, &again);
    EXPECT_NE(order, again);
  }
  Cut plain = cut;
  plain.shuffle_seed = 0;
  TrainingOrder(plain, &again);
  EXPECT_EQ(again, sorted);
}

TEST(RunSet, IsASet) {
  Rng rng(2);
  for (int round = 0; round < 200; ++round) {
    const auto size = static_cast<uint32_t>(rng.Below(200));
    RunSet a(size), b(size);
    std::set<uint32_t> as, bs;
    for (uint32_t k = 0; k < size; ++k) {
      const auto i = static_cast<uint32_t>(rng.Below(size));
      if (rng.Chance(0.5)) {
        a.Add(i);
        as.insert(i);
      } else {
        b.Add(i);
        bs.insert(i);
      }
    }
    RunSet either = a, both = a;
    either |= b;
    both &= b;
    const RunSet rest = a.Complement();
    for (uint32_t i = 0; i < size + 70; ++i) {
      EXPECT_EQ(a.Has(i), as.contains(i));
      EXPECT_EQ(either.Has(i), as.contains(i) || bs.contains(i));
      EXPECT_EQ(both.Has(i), as.contains(i) && bs.contains(i));
      EXPECT_EQ(rest.Has(i), i < size && !as.contains(i));
    }
    EXPECT_EQ(a.count(), as.size());
    EXPECT_EQ(a.empty(), as.empty());
    EXPECT_EQ(a.full(), as.size() == size);
    EXPECT_EQ(RunSet(size, a.words()), a);
    EXPECT_EQ(RunSet(size, true).count(), size);
    EXPECT_TRUE(RunSet(size, true).full());
    EXPECT_EQ(RunSet(size, true), RunSet(size).Complement());
  }
}

TEST(RunSet, OfAPeersWordsHasNothingBeyondItsSize) {
  const std::vector<uint64_t> words(9, ~uint64_t{0});
  for (uint32_t size : {0u, 1u, 63u, 64u, 65u, 128u}) {
    EXPECT_EQ(RunSet(size, words), RunSet(size, true));
    EXPECT_TRUE(RunSet(size, std::span<const uint64_t>()).empty());
  }
}

TEST(Cut, ComesBackFromItsBytes) {
  const auto decode = [](ByteView bytes) { return fields::Decode<Cut>(bytes, "cut"); };
  const Cut cut = Some();
  const Bytes bytes = fields::Encode(cut);
  const auto back = decode(bytes);
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  EXPECT_EQ(*back, cut);
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode(ByteView(bytes).first(size)).ok()) << size;
  Cut none = cut;
  none.end = 0;
  EXPECT_FALSE(decode(fields::Encode(none)).ok());
}

TEST(Encoding, OfAnOpenSplitHasTheWordsOfItsRuns) {
  OpenSplit split{Some(100, 150), RunSet(4)};
  split.batches.Add(1);
  split.batches.Add(3);
  const Bytes bytes = fields::Encode(split);
  EXPECT_EQ(ToHex(bytes),
            "02016401649601630000000000000010050000000000000001"
            "0a00000000000000");
  const auto read = fields::Decode<OpenSplit>(bytes, "split");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(*read, split);

  // A set of another size is that of the cut.
  EXPECT_EQ(fields::Encode(OpenSplit{split.cut, RunSet()}), fields::Encode(OpenSplit{split.cut, RunSet(4)}));
  EXPECT_EQ(fields::Encode(OpenSplit{split.cut, RunSet(70, true)}),
            fields::Encode(OpenSplit{split.cut, RunSet(4, true)}));
}

TEST(Encoding, RandomSplitsComeBack) {
  EXPECT_EQ(fields::CodecFault<OpenSplit>(50), "");
  EXPECT_EQ(fields::CodecFault<LabelMark>(20), "");
  EXPECT_EQ(fields::CodecFault<PassSpan>(20), "");
  EXPECT_EQ(fields::MostBytes<OpenSplit>(), fields::MostBytes<Cut>() + Cut::kMaxBatches / 8);
  EXPECT_TRUE(fields::Describe<OpenSplit>().text().starts_with(
      "OpenSplit\n  cut Cut\n  batches runs of the cut, a fixed u64 for every 64\nCut\n"));
}

TEST(Encoding, OfAnOpenSplitIsCheckedAgainstItsCut) {
  const auto error = [](Bytes bytes) {
    const auto read = fields::Decode<OpenSplit>(bytes, "split");
    return read.ok() ? "" : read.status().message();
  };
  Bytes past = fields::Encode(OpenSplit{Some(100, 150), RunSet(4, true)});
  past[past.size() - 8] |= std::byte{0x10};
  EXPECT_EQ(error(past), "split: batches has a run past the end of the cut");
  Cut none = Some(100, 150);
  none.end = 50;
  EXPECT_EQ(error(fields::Encode(OpenSplit{none, RunSet(4)})),
            "split: cut: invalid cut: partition 2 offsets 100 to 50");
  none.batch_size = 0;
  EXPECT_EQ(error(fields::Encode(OpenSplit{none, RunSet(4)})),
            "split: cut: invalid cut: partition 2 offsets 100 to 50");
}

}  // namespace
}  // namespace leat::protocol
