
#include <gtest/gtest.h>

#include "protocol/coordinator/testing.h"
#include "protocol/leases/partition_cursors.h"

namespace leat::protocol {
namespace {

TEST(RaisedRates, ASpanCoversTheCutsThatBeginInIt) {
  RaisedRates rates;
  EXPECT_EQ(rates.At(0, {0, 0}), 1);
  EXPECT_TRUE(rates.Add({3, {{0, 10}, {1, 5}}, {{0, 20}, {2, 5}}}));
  EXPECT_EQ(rates.At(0, {0, 9}), 1);
  EXPECT_EQ(rates.At(0, {0, 10}), 3);
  EXPECT_EQ(rates.At(0, {0, 19}), 3);
  EXPECT_EQ(rates.At(0, {0, 20}), 1);
  EXPECT_EQ(rates.At(0, {1, 15}), 1) << "the next pass";
  EXPECT_EQ(rates.At(1, {1, 99}), 3);
  EXPECT_EQ(rates.At(1, {2, 5}), 1);
  EXPECT_EQ(rates.At(2, {0, 15}), 1) << "a partition that was not there";
  Cut cut;
  cut.partition = 0;
  cut.begin = {0, 19};
  cut.end = 40;
  EXPECT_EQ(rates.Of(cut), 3) << "it ends outside, and is one update after the other all the same";
}

TEST(RaisedRates, WhereSpansOverlapTheHighestFactorCounts) {
  RaisedRates rates;
  EXPECT_TRUE(rates.Add({3, {{0, 10}}, {{0, 20}}}));
  EXPECT_FALSE(rates.Add({3, {{0, 10}}, {{0, 20}}})) << "nothing was cut in between";
  EXPECT_TRUE(rates.Add({2, {{0, 15}}, {{0, 25}}}));
  EXPECT_EQ(rates.size(), 2u);
  EXPECT_EQ(rates.At(0, {0, 19}), 3);
  EXPECT_EQ(rates.At(0, {0, 20}), 2);
  rates.DropBefore({{0, 19}});
  EXPECT_EQ(rates.size(), 2u);
  rates.DropBefore({{0, 20}});
  EXPECT_EQ(rates.size(), 1u);
  EXPECT_EQ(rates.At(0, {0, 24}), 2);
}

TEST(RaisedRates, TheNextSpanIsAnEvenShareOfEachPartition) {
  PartitionCursors cursors({.epochs = 3}, 3, milliseconds(100));
  cursors.Start({{0, 100}, {0, 0}, {0, 7}});
  Cut cut;
  cut.begin = {0, 100};
  cut.end = 130;
  cursors.Advance(Time{0}, cut);
  cursors.OnRange(Time{0}, {0, 100, 150, true});  // 50 events, of which 20 are left
  cursors.OnRange(Time{0}, {1, 0, 1000, false});  // grows
  const RateRaised span = cursors.NextSpan({.factor = 2.5f, .events = 299});
  EXPECT_EQ(span.factor, 2.5f);
  EXPECT_EQ(span.first, (std::vector<Position>{{0, 130}, {0, 0}, {0, 7}}));
  EXPECT_EQ(span.last, (std::vector<Position>{{2, 130}, {0, 100}, {0, 107}})) << "two passes later";

  cut.begin = {0, 130};
  cut.end = 150;
  cursors.Advance(Time{0}, cut);
  const RateRaised later = cursors.NextSpan({.factor = 2, .events = 60});
  EXPECT_EQ(later.first[0], (Position{1, 100})) << "where the next pass begins";
  EXPECT_EQ(later.last[0], (Position{1, 120}));
}

// ---- in the coordinator

class RaisedRatesTest : public CoordinatorTest {
 protected:
  RaisedRatesTest() {
    config_.raise = RateRaise{.factor = 4, .events = 60};
    Start({});
  }
  std::vector<RateRaised> Journaled() const {
    std::vector<RateRaised> spans;
    for (const JournalRecord& record : journal_) {
      if (const auto* raised = std::get_if<RateRaised>(&record)) spans.push_back(*raised);
    }
    return spans;
  }
  std::vector<float> Rates(const std::vector<Lease>& leases) {
    std::vector<float> rates;
    for (const Lease& lease : leases) {
      if (lease.cut.partition == 0) rates.push_back(lease.rate);
    }
    return rates;
  }
};

TEST_F(RaisedRatesTest, AnAlarmRaisesTheRateOfTheNextCutsAndAResumedJobAgrees) {
  Run(200, 1000);  // partition 1 is empty
  const auto before = SendHeartbeat(worker_, 2).leases;
  EXPECT_THAT(Rates(before), ::testing::ElementsAre(1, 1));
  Take(coordinator_->OnDrift(now_));
  ASSERT_EQ(Journaled().size(), 1u);
  const RateRaised span = Journaled()[0];
  EXPECT_EQ(span.factor, 4);
  const uint64_t begin = span.first[0].offset;
  EXPECT_GE(begin, 40u) << "the splits of 20 events that are leased keep their rate";
  EXPECT_EQ(span.last[0], (Position{0, begin + 30})) << "half of the events";
  EXPECT_EQ(coordinator_->status().rate, 4);
  Take(coordinator_->OnDrift(now_));
  EXPECT_EQ(Journaled().size(), 1u) << "nothing was cut in between";

  std::vector<uint64_t> held;
  for (const Lease& lease : before) held.push_back(lease.id);
  const auto after = SendHeartbeat(worker_, 8, held).leases;
  ASSERT_FALSE(after.empty());
  std::map<Position, float> rates;
  for (const Lease& lease : after) rates[lease.cut.begin] = lease.rate;
  for (const auto& [at, rate] : rates)
    EXPECT_EQ(rate, at.offset >= begin && at.offset < begin + 30 ? 4 : 1) << at.offset;
  EXPECT_EQ(rates.at({0, begin}), 4);
  EXPECT_EQ(rates.at({0, begin + 20}), 4);
  EXPECT_EQ(rates.at({0, begin + 40}), 1);
  EXPECT_EQ(coordinator_->status().rate, 4) << "nothing of partition 1 has come yet";

  // Nothing was saved: the resumed job leases the same cuts.
  Start({std::nullopt, journal_});
  Run(200, 1000);
  for (const Lease& lease : SendHeartbeat(worker_, 20).leases) {
    const auto at = rates.find(lease.cut.begin);
    EXPECT_EQ(lease.rate, at == rates.end() ? 1 : at->second) << lease.cut.begin.offset;
  }
}

TEST_F(RaisedRatesTest, LanesOfOneStepHaveOneRate) {
  config_.strategy.kind = StrategyKind::kSync;
  config_.strategy.lanes = 2;
  config_.cuts.split_batches = 1;
  Start({});
  Run(200, 1000);
  const auto before = SendHeartbeat(worker_, 1).leases;
  ASSERT_FALSE(before.empty());
  for (const Lease& lease : before) EXPECT_EQ(lease.rate, 1);
  Take(coordinator_->OnDrift(now_));
  const RateRaised span = Journaled().at(0);
  // 30 events: the first lane of the second round after the alarm is the last that begins in the span.
  std::map<uint64_t, std::vector<float>> by_step;
  std::vector<uint64_t> released;
  for (const Lease& lease : before) {
    Train(lease);
    released.push_back(lease.id);
  }
  version_ = before.size() / 2;
  SendServerHeartbeat(a_);
  SendServerHeartbeat(b_);
  for (const Lease& lease : SendHeartbeat(worker_, 1, {}, released).leases)
    by_step[lease.first_step].push_back(lease.rate);
  ASSERT_FALSE(by_step.empty());
  uint64_t at = span.first[0].offset;
  for (const auto& [step, rates] : by_step) {
    const float expected = at < span.last[0].offset ? 4.0f : 1.0f;
    EXPECT_THAT(rates, ::testing::ElementsAre(expected, expected)) << step;
    at += 20;
  }
}

TEST_F(RaisedRatesTest, WithoutASettingAnAlarmChangesNothing) {
  config_.raise.reset();
  Start({});
  Run();
  Take(coordinator_->OnDrift(now_));
  EXPECT_TRUE(Journaled().empty());
}

}  // namespace
}  // namespace leat::protocol
