#include "protocol/slices/server/slice_ledgers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "base/rng.h"

namespace leat::protocol {
namespace {

using ::testing::ElementsAre;
using Entry = Ledger::Entry;

constexpr uint32_t kManySlices = 70;

Cut CutAt(uint32_t partition, uint64_t begin, uint64_t events) {
  Cut cut;
  cut.partition = partition;
  cut.after = cut.begin = {0, begin};
  cut.end = begin + events;
  return cut;
}

const Ledger kEmpty(std::vector<Position>{{0, 0}, {0, 0}});

SliceLedgers AllLedgers() {
  SliceLedgers ledgers(kManySlices);
  for (uint32_t i = 0; i < kManySlices; ++i) ledgers.Put(i, kEmpty);
  return ledgers;
}

Entry Lookup(SliceLedgers& ledgers, uint32_t slice, const Cut& cut, uint32_t run) {
  ledgers.SelectRun(cut, run);
  return ledgers.Lookup(slice);
}

Entry Record(SliceLedgers& ledgers, uint32_t slice, const Cut& cut, uint32_t run) {
  ledgers.SelectRun(cut, run);
  return ledgers.Record(slice);
}

TEST(SliceLedgers, EqualOnesAreOneClass) {
  SliceLedgers ledgers = AllLedgers();
  EXPECT_EQ(ledgers.Classes().size(), 1u);
  for (uint32_t i = 0; i < kManySlices; ++i) {
    EXPECT_EQ(Record(ledgers, i, CutAt(0, 0, 4), 2), Entry::kNew);
    EXPECT_EQ(Record(ledgers, i, CutAt(0, 0, 4), 2), Entry::kDuplicate);
    const auto classes = ledgers.Classes();
    ASSERT_EQ(classes.size(), i + 1 < kManySlices ? 2u : 1u);
    EXPECT_EQ(classes[0].slices.size(), i + 1);
    EXPECT_TRUE(HeldRuns(classes[0].partitions, CutAt(0, 0, 4)).Has(2));
  }
}

TEST(SliceLedgers, WhoseLedgersDifferedForLongAndComeToTheSameAreOneClassAgain) {
  SliceLedgers ledgers = AllLedgers();
  for (uint32_t run = 0; run < 200; ++run) {
    for (uint32_t i = 0; i < kManySlices; ++i) {
      if (i % 2 == 0) Record(ledgers, i, CutAt(0, 0, 200), run);
    }
  }
  EXPECT_EQ(ledgers.Classes().size(), 2u);
  for (uint32_t run = 0; run < 200; ++run) {
    for (uint32_t i = 1; i < kManySlices; i += 2) Record(ledgers, i, CutAt(0, 0, 200), run);
  }
  const auto classes = ledgers.Classes();
  ASSERT_EQ(classes.size(), 1u);
  EXPECT_EQ(classes[0].partitions[0].done, (Position{0, 200}));
}

// After any sequence of Record, Put and Drop, each slice has the ledger that it would have alone.
TEST(SliceLedgers, AreToEachSliceALedgerOfItsOwn) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    const uint32_t slices = 1 + static_cast<uint32_t>(rng.Below(kManySlices));
    SliceLedgers ledgers(slices);
    std::vector<std::optional<Ledger>> plain(slices);
    for (int round = 0; round < 300; ++round) {
      const auto slice = static_cast<uint32_t>(rng.Below(slices));
      if (!plain[slice] || rng.Chance(0.01)) {
        const auto like = static_cast<uint32_t>(rng.Below(slices));
        plain[slice] = plain[like] && rng.Chance(0.8) ? *plain[like] : kEmpty;
        ledgers.Put(slice, *plain[slice]);
      }
      if (rng.Chance(0.005)) {
        ledgers.Drop(slice);
        plain[slice].reset();
        continue;
      }
      const uint64_t length = rng.Chance(0.95) ? 8 : 12;
      const Cut cut = CutAt(static_cast<uint32_t>(rng.Below(2)), length * rng.Below(4), length);
      const auto run = static_cast<uint32_t>(rng.Below(8));
      if (rng.Chance(0.5)) {
        for (uint32_t i = 0; i < slices; ++i) {
          if (!plain[i] || rng.Chance(0.1)) continue;
          ASSERT_EQ(Lookup(ledgers, i, cut, run), plain[i]->Lookup(cut, run)) << seed;
          ASSERT_EQ(Record(ledgers, i, cut, run), plain[i]->Record(cut, run)) << seed;
        }
      } else {
        std::vector<RunId> runs;
        for (uint32_t r = 0; r < 8; ++r) {
          if (Lookup(ledgers, slice, cut, r) == Entry::kNew && rng.Chance(0.5)) runs.push_back({cut, r});
        }
        if (!runs.empty()) ledgers.Record(slice, runs);
        for (const RunId& recorded : runs)
          ASSERT_EQ(plain[slice]->Record(recorded.cut, recorded.run), Entry::kNew);
      }
      if (rng.Chance(0.1)) {
        size_t reported = 0;
        for (const auto& equal : ledgers.Classes()) {
          for (const uint32_t i : equal.slices) ASSERT_EQ(equal.partitions, plain[i]->partitions()) << seed;
          reported += equal.slices.size();
        }
        EXPECT_EQ(reported, static_cast<size_t>(std::ranges::count_if(plain, [](auto& p) { return !!p; })));
      }
    }
    for (uint32_t i = 0; i < slices; ++i) {
      if (plain[i]) {
        ASSERT_EQ(ledgers.Get(i), *plain[i]) << seed;
      }
    }
  }
}

}  // namespace
}  // namespace leat::protocol
