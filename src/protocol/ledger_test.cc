#include "protocol/ledger.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "base/fields/codec.h"
#include "base/rng.h"

namespace leat::protocol {
namespace {

// Contiguous cuts of random sizes, over one or more passes.
std::vector<Cut> SomeCuts(Rng* rng, uint32_t partition, uint64_t first, uint32_t passes) {
  std::vector<Cut> cuts;
  const uint64_t end = first + 100 + rng->Below(200);
  Position at{0, first};
  for (uint32_t pass = 0; pass < passes; ++pass) {
    Position begin{pass, first};
    while (begin.offset < end) {
      Cut cut;
      cut.partition = partition;
      cut.after = at;
      cut.begin = begin;
      cut.end = std::min(begin.offset + 1 + rng->Below(60), end);
      cut.hash = 1;
      cut.batch_size = 1 + static_cast<uint32_t>(rng->Below(20));
      cuts.push_back(cut);
      begin = at = cut.next();
    }
  }
  return cuts;
}

using Batch = std::pair<size_t, uint32_t>;  // index of the cut, and of its batch

TEST(Ledger, AgreesWithASetOfAllBatchesInAnyOrder) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Rng rng(seed);
    std::vector<Cut> cuts;
    std::vector<Position> start;
    for (uint32_t p = 0; p < 3; ++p) {
      start.push_back({0, rng.Below(1000)});
      const auto some = SomeCuts(&rng, p, start[p].offset, 1 + static_cast<uint32_t>(rng.Below(2)));
      cuts.insert(cuts.end(), some.begin(), some.end());
    }
    std::vector<Batch> todo;
    for (size_t c = 0; c < cuts.size(); ++c) {
      for (uint32_t b = 0; b < cuts[c].batches(); ++b) {
        todo.push_back({c, b});
        if (rng.Chance(0.3)) todo.push_back({c, b});
      }
    }
    // Mostly in order; sometimes any.
    for (size_t i = 0; i < todo.size(); ++i) {
      const size_t j = rng.Chance(0.1) ? rng.Below(todo.size()) : std::min(todo.size() - 1, i + rng.Below(8));
      std::swap(todo[i], todo[j]);
    }

    Ledger ledger(start);
    std::set<Batch> model;
    for (const Batch& batch : todo) {
      const Cut& cut = cuts[batch.first];
      const auto expected = model.insert(batch).second ? Ledger::Entry::kNew : Ledger::Entry::kDuplicate;
      ASSERT_EQ(ledger.Lookup(cut, batch.second), expected);
      ASSERT_EQ(ledger.Record(cut, batch.second), expected);
      ASSERT_EQ(ledger.Lookup(cut, batch.second), Ledger::Entry::kDuplicate);
      if (!rng.Chance(0.05)) continue;
      for (size_t c = 0; c < cuts.size(); ++c) {
        const RunSet held = ledger.Held(cuts[c]);
        for (uint32_t b = 0; b < cuts[c].batches(); ++b) ASSERT_EQ(held.Has(b), model.contains({c, b}));
      }
      ASSERT_EQ(*fields::Decode<Ledger>(fields::Encode(ledger), "ledger"), ledger);
    }
    for (uint32_t p = 0; p < 3; ++p) {
      EXPECT_TRUE(ledger.partitions()[p].open.empty());
      Position last{};
      for (const Cut& cut : cuts) {
        if (cut.partition == p) last = std::max(last, cut.next());
      }
      EXPECT_EQ(ledger.partitions()[p].done, last);
    }
  }
}

Cut At(uint64_t begin, uint64_t end, uint32_t batch = 10) {
  Cut cut;
  cut.begin = cut.after = {0, begin};
  cut.end = end;
  cut.hash = 1;
  cut.batch_size = batch;
  return cut;
}

TEST(Ledger, RefusesWhatContradictsIt) {
  Ledger ledger(std::vector<Position>{{0, 100}});
  EXPECT_EQ(ledger.Record(At(100, 120), 0), Ledger::Entry::kNew);
  EXPECT_EQ(ledger.Record(At(100, 120), 1), Ledger::Entry::kNew);  // done is 120 now
  EXPECT_EQ(ledger.Record(At(140, 160), 0), Ledger::Entry::kNew);
  const Ledger before = ledger;

  std::vector<std::tuple<Cut, uint32_t, const char*>> refused = {
      {At(110, 130), 0, "straddles what is done"},
      {At(130, 150), 0, "runs into an open cut"},
      {At(150, 170), 0, "begins inside an open cut"},
      {At(140, 170), 0, "another end of the open cut"},
      {At(140, 160, 5), 0, "another batch size"},
      {At(160, 180), 2, "no such batch"},
      {At(160, 160), 0, "no cut"},
  };
  Cut hash = At(140, 160);
  hash.hash = 2;
  refused.push_back({hash, 0, "cut under other settings"});
  Cut partition = At(160, 180);
  partition.partition = 1;
  refused.push_back({partition, 0, "no such partition"});
  Cut pass = At(100, 120);
  pass.begin.epoch = 1;
  pass.after = {0, 130};
  refused.push_back({pass, 0, "a pass that starts before an open cut"});
  for (const auto& [cut, batch, why] : refused) {
    EXPECT_EQ(ledger.Lookup(cut, batch), Ledger::Entry::kConflict) << why;
    EXPECT_EQ(ledger.Record(cut, batch), Ledger::Entry::kConflict) << why;
  }
  EXPECT_EQ(ledger, before);
  EXPECT_EQ(ledger.Record(At(120, 140), 0), Ledger::Entry::kNew)
      << "exactly between what is done and what is open";
}

TEST(Ledger, DoesNotGrowWithoutBound) {
  Ledger ledger(std::vector<Position>{{0, 0}});
  for (uint64_t i = 1; i <= Ledger::kMaxOpen; ++i) {
    ASSERT_EQ(ledger.Record(At(i * 1000, i * 1000 + 1000), 0), Ledger::Entry::kNew);
  }
  EXPECT_EQ(ledger.Record(At(1'000'000'000, 1'000'001'000), 0), Ledger::Entry::kConflict);
  EXPECT_EQ(ledger.Record(At(1000, 2000), 1), Ledger::Entry::kNew) << "what is open goes on";
}

TEST(Ledger, DecodingBelievesNothing) {
  Rng rng(3);
  Ledger ledger(std::vector<Position>{{0, 0}, {0, 5}});
  for (const Cut& cut : SomeCuts(&rng, 0, 0, 2)) ledger.Record(cut, 0);
  for (const Cut& cut : SomeCuts(&rng, 1, 5, 1)) ledger.Record(cut, cut.batches() - 1);
  const Bytes bytes = fields::Encode(ledger);

  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(fields::Decode<Ledger>(ByteView(bytes).first(size), "ledger").ok());
  for (int round = 0; round < 20000; ++round) {
    Bytes broken = bytes;
    const uint64_t flips = 1 + rng.Below(4);
    for (uint64_t i = 0; i < flips; ++i) broken[rng.Below(broken.size())] = std::byte(rng.Below(256));
    const auto read = fields::Decode<Ledger>(broken, "ledger");
    if (!read.ok()) continue;
    // Any result is a valid ledger.
    for (const Cut& cut : {At(0, 10), At(50, 90)}) {
      read->Lookup(cut, 0);
      read->Held(cut);
    }
  }
}

// Reports are untrusted: invalid sizes and cuts count as nothing recorded.
TEST(Ledger, ReportsThatDoNotFitHoldNothing) {
  const Cut cut = At(100, 200);
  std::vector<PartitionLedger> report(1);
  report[0].done = {0, 50};
  report[0].open.push_back({cut, RunSet(3, true)});
  EXPECT_EQ(HeldRuns(report, cut).count(), 3u);
  report[0].open[0].batches = RunSet(500, true);
  EXPECT_EQ(HeldRuns(report, cut), RunSet(10, true));
  report[0].open[0].cut.batch_size = 3;
  EXPECT_TRUE(HeldRuns(report, cut).empty());
  EXPECT_TRUE(HeldRuns({}, cut).empty());
}

TEST(Ledger, WhatNoLedgerHasIsNotAddedToWhatIsKnown) {
  Cut cut;
  cut.begin = cut.after = {0, 20};
  cut.end = 40;
  cut.batch_size = 10;
  PartitionLedger reported{{0, 10}, {{cut, RunSet(2)}, {cut, RunSet(2, true)}}};
  reported.open.push_back({Cut{.after = {0, 50}, .begin = {0, 50}, .end = 60, .batch_size = 0}, {}});
  reported.open.push_back({Cut{.after = {0, 60}, .begin = {0, 60}, .end = 60}, {}});
  PartitionLedger known;
  Add(reported, &known);
  EXPECT_EQ(known, (PartitionLedger{{0, 10}, {{cut, RunSet(2)}}}));
  reported = {{0, 30}, {{cut, RunSet(2, true)}}};
  Add(reported, &known);
  EXPECT_EQ(known, (PartitionLedger{{0, 30}, {}})) << "it begins before the end of what is done";
}

}  // namespace
}  // namespace leat::protocol
