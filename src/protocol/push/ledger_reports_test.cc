#include "protocol/push/ledger_reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/fields/codec.h"
#include "base/rng.h"
#include "protocol/slices/server/slice_ledgers.h"

namespace leat::protocol {
namespace {

using ::testing::ElementsAre;

constexpr uint32_t kSlices = 6, kReportedPartitions = 3, kRuns = 4, kBatch = 10;

Cut SplitAt(uint32_t partition, uint64_t index) {
  const Position begin{0, index * kRuns * kBatch};
  return {partition, begin, begin, begin.offset + kRuns * kBatch, 7, kBatch, 3};
}

// Slices with ledgers, and what a coordinator knows of them by the parts that reach it.
class LedgerReportsTest : public ::testing::Test {
 protected:
  LedgerReportsTest() {
    for (uint32_t i = 0; i < kSlices; ++i) Load(i);
  }
  // The slice is restored, with an empty ledger.
  void Load(uint32_t slice) {
    incarnations_[slice] = Incarnation(++last_incarnation_);
    ledgers_.Put(slice, Ledger(std::vector<Position>(kReportedPartitions)));
  }
  void Record(uint32_t slice, const Cut& cut, uint32_t run) {
    ledgers_.SelectRun(cut, run);
    ledgers_.Record(slice);
  }
  std::vector<LedgerReport> Ledgers() {
    std::vector<LedgerReport> reports;
    for (SliceLedgers::Equal& equal : ledgers_.Classes()) {
      LedgerReport report{{}, events_, std::move(equal.partitions), events_};
      for (const uint32_t i : equal.slices) report.slices.push_back({SliceId(i), incarnations_[i]});
      reports.push_back(std::move(report));
    }
    return reports;
  }
  ServerHeartbeat Next() {
    ServerHeartbeat heartbeat;
    reports_.Fill([this] { return Ledgers(); }, &heartbeat);
    return heartbeat;
  }
  // As the coordinator does.
  void Arrive(const ServerHeartbeat& heartbeat) {
    for (const LedgerReport& report : heartbeat.ledgers) {
      for (const SliceIncarnation& slice : report.slices) {
        auto& known = known_[slice];
        known.resize(kReportedPartitions);
        for (size_t p = 0; p < report.partitions.size(); ++p)
          Add(report.partitions[p], &known.at(report.first_partition + p));
      }
    }
  }
  // All parts of the next report, in order. Returns their number.
  int Exchange() {
    for (int parts = 1;; ++parts) {
      const ServerHeartbeat heartbeat = Next();
      Arrive(heartbeat);
      if (!reports_.OnReply(heartbeat.report, heartbeat.part)) return parts;
    }
  }
  void ExpectAllKnown() {
    for (uint32_t i = 0; i < kSlices; ++i)
      EXPECT_EQ(known_[SliceIncarnation(SliceId(i), incarnations_[i])], ledgers_.Get(i).partitions()) << i;
  }

  uint64_t last_incarnation_ = 0;
  uint64_t events_ = 0;
  std::vector<Incarnation> incarnations_ = std::vector<Incarnation>(kSlices);
  SliceLedgers ledgers_{kSlices};
  LedgerReports reports_{kSlices, 1000};
  std::map<SliceIncarnation, std::vector<PartitionLedger>> known_;
};

TEST_F(LedgerReportsTest, OnlyGrowthIsReported) {
  EXPECT_EQ(Exchange(), 1);
  EXPECT_TRUE(Next().ledgers.empty());
  Record(2, SplitAt(1, 5), 0);
  Record(2, SplitAt(1, 8), 0);
  Exchange();
  Record(2, SplitAt(1, 8), 1);
  events_ = 10;
  const ServerHeartbeat heartbeat = Next();
  ASSERT_EQ(heartbeat.ledgers.size(), 2u) << "the others have new events";
  EXPECT_TRUE(heartbeat.ledgers[0].partitions.empty());
  const LedgerReport& report = heartbeat.ledgers[1];
  EXPECT_EQ(report.first_partition, 1u);
  ASSERT_EQ(report.partitions.size(), 1u);
  ASSERT_EQ(report.partitions[0].open.size(), 1u);
  EXPECT_EQ(report.partitions[0].open[0].cut, SplitAt(1, 8));
  EXPECT_EQ(Next().ledgers, heartbeat.ledgers) << "it was not acknowledged";
  Arrive(heartbeat);
  ExpectAllKnown();
}

TEST_F(LedgerReportsTest, ALargeReportIsDividedAndContainsTheStateAtItsBeginning) {
  for (uint64_t i = 1; i < 30; ++i) Record(0, SplitAt(i % 2, i), 0);
  const ServerHeartbeat first = Next();
  EXPECT_TRUE(first.more);
  EXPECT_EQ(first.part, 0u);
  Record(0, SplitAt(2, 4), 0);
  EXPECT_EQ(Next().ledgers, first.ledgers) << "it was not acknowledged";
  EXPECT_TRUE(reports_.OnReply(first.report, 0));
  EXPECT_FALSE(reports_.OnReply(first.report, 0)) << "a reply that arrives again";
  const ServerHeartbeat second = Next();
  EXPECT_EQ(second.report, first.report);
  EXPECT_EQ(second.part, 1u);
  Arrive(first);
  Arrive(second);
  EXPECT_FALSE(reports_.OnReply(second.report - 1, 1)) << "a reply to another report";
  reports_.OnReply(second.report, 1);
  while (Next().report == first.report) {
    const ServerHeartbeat part = Next();
    Arrive(part);
    reports_.OnReply(part.report, part.part);
  }
  const auto& known = known_[SliceIncarnation(SliceId(0), incarnations_[0])];
  EXPECT_EQ(known[0].open.size() + known[1].open.size(), 29u);
  EXPECT_TRUE(known[2].open.empty());
  Exchange();
  ExpectAllKnown();
}

TEST_F(LedgerReportsTest, SlicesAreLiveWithTheirLastPart) {
  for (uint64_t i = 1; i < 30; ++i) Record(3, SplitAt(0, i), 0);
  events_ = 8;
  std::map<SliceId, int> last;
  int parts = 0;
  for (bool more = true; more; ++parts) {
    const ServerHeartbeat heartbeat = Next();
    more = heartbeat.more;
    for (const LedgerReport& report : heartbeat.ledgers) {
      for (const SliceIncarnation& slice : report.slices) {
        EXPECT_FALSE(last.contains(slice.slice)) << "reported again after its last part";
        EXPECT_EQ(report.version, report.more ? 0u : 8u);
        if (!report.more) last[slice.slice] = parts;
      }
    }
    reports_.OnReply(heartbeat.report, heartbeat.part);
  }
  EXPECT_EQ(last.size(), kSlices);
  EXPECT_EQ(last[SliceId(0)], 0);
  EXPECT_EQ(last[SliceId(3)], parts - 1);
  EXPECT_GT(parts, 2);
}

TEST_F(LedgerReportsTest, ACoordinatorThatKnowsNothingGetsEverything) {
  for (uint64_t i = 1; i < 30; ++i) Record(0, SplitAt(0, i), 0);
  const int parts = Exchange();
  Next();
  reports_.OnReply(2, 0);
  known_.clear();
  reports_.Restart();
  EXPECT_EQ(Exchange(), parts);
  ExpectAllKnown();
  // In the middle of a report, too.
  for (uint64_t i = 31; i < 60; ++i) Record(0, SplitAt(0, i), 0);
  const ServerHeartbeat heartbeat = Next();
  reports_.OnReply(heartbeat.report, 0);
  known_.clear();
  reports_.Restart();
  EXPECT_EQ(Next().part, 0u);
  Exchange();
  ExpectAllKnown();
}

TEST_F(LedgerReportsTest, AnyLossAndAnyOrderLeadToTheLedgers) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    reports_.Restart();
    known_.clear();
    for (uint32_t i = 0; i < kSlices; ++i) Load(i);
    std::vector<ServerHeartbeat> late;
    for (int step = 0; step < 300; ++step) {
      const auto slice = static_cast<uint32_t>(rng.Below(kSlices));
      if (rng.Chance(0.02)) Load(slice);
      const Cut cut = SplitAt(static_cast<uint32_t>(rng.Below(kReportedPartitions)), rng.Below(12));
      const auto run = static_cast<uint32_t>(rng.Below(kRuns));
      for (uint32_t i = slice; i < kSlices; i += 1 + static_cast<uint32_t>(rng.Below(2))) Record(i, cut, run);
      if (!rng.Chance(0.3)) continue;
      const ServerHeartbeat heartbeat = Next();
      if (rng.Chance(0.2)) late.push_back(heartbeat);
      if (rng.Chance(0.2)) continue;  // lost
      Arrive(heartbeat);
      if (!late.empty() && rng.Chance(0.2)) {
        Arrive(late.front());
        late.erase(late.begin());
      }
      if (!rng.Chance(0.2)) reports_.OnReply(heartbeat.report, heartbeat.part);
    }
    for (const ServerHeartbeat& heartbeat : late) Arrive(heartbeat);
    // The rest of the report under way, and a fresh one.
    Exchange();
    Exchange();
    ExpectAllKnown();
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST_F(LedgerReportsTest, APartHasALimitWhateverTheReportConsistsOf) {
  // Slices that differ, partitions without open splits, and sets of many runs.
  LedgerReports reports(3000, 10'000);
  std::vector<LedgerReport> ledgers(1);
  for (uint32_t i = 0; i < 2000; ++i) ledgers[0].slices.push_back({SliceId(i), Incarnation(1)});
  ledgers[0].partitions.resize(5);
  ledgers.emplace_back().slices = {{SliceId(2000), Incarnation(1)}};
  ledgers[1].partitions.resize(2000);
  Cut cut = SplitAt(1, 0);
  cut.end = cut.begin.offset + Cut::kMaxBatches;
  cut.batch_size = 1;
  for (uint32_t i = 2001; i < 2010; ++i) {
    ledgers.emplace_back().slices = {{SliceId(i), Incarnation(1)}};
    ledgers.back().partitions = {{}, {{}, {{cut, RunSet(cut.runs(), true)}}}};
  }
  std::map<SliceId, size_t> partitions;
  for (bool more = true; more;) {
    ServerHeartbeat heartbeat;
    reports.Fill([&] { return ledgers; }, &heartbeat);
    size_t bytes = 0;
    for (const LedgerReport& report : heartbeat.ledgers) {
      bytes += fields::Encode(report).size();
      for (const SliceIncarnation& slice : report.slices) partitions[slice.slice] += report.partitions.size();
    }
    EXPECT_LT(bytes, 10'000u + cut.runs() / 8);
    more = heartbeat.more;
    reports.OnReply(heartbeat.report, heartbeat.part);
  }
  EXPECT_EQ(partitions.size(), 2010u);
  EXPECT_EQ(partitions[SliceId(1999)], 5u);
  EXPECT_EQ(partitions[SliceId(2000)], 2000u);
}

}  // namespace
}  // namespace leat::protocol
