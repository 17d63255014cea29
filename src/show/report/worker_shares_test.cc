#include "show/report/worker_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"

namespace leat::report {
namespace {

using protocol::Role;
using protocol::StrategyKind;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr NodeId kFirst(11), kSecond(12), kThird(13);
constexpr uint32_t kEvents = 100;  // events per split

// A binary label, a number and a category.
metrics::ShareLayout Layout() {
  using Kind = metrics::ShareLayout::Feature::Kind;
  return {.width = 4,
          .labels = 1,
          .classes = 2,
          .features = {{.name = "amount", .column = 0},
                       {.name = "country", .kind = Kind::kOneHot, .column = 1, .categories = 3}}};
}

struct Trained {
  metrics::Share share{Layout()};
  uint32_t ones = 50;    // events of class 1 in a split
  float amount = 0;      // the mean; with a variance of almost 1
  uint32_t country = 0;  // country of all events

  void Split() {
    std::vector<float> features, labels;
    std::vector<uint32_t> batch(kEvents);
    std::iota(batch.begin(), batch.end(), 0u);
    for (const uint32_t i : batch) {
      std::vector<float> row{amount + (i / 4 % 2 == 0 ? -1.0f : 1.0f), 0, 0, 0};
      row[1 + country] = 1;
      features.insert(features.end(), row.begin(), row.end());
      labels.push_back(i < ones ? 1.0f : 0.0f);
    }
    share.Add(Layout(), features, labels, batch, 1);
  }
};

class WorkerSharesTest : public ::testing::Test {
 protected:
  WorkerSharesTest() { Make({}); }
  void Make(const protocol::StrategyConfig& strategy, uint64_t window = 200'000) {
    shares_.emplace(WorkerShares::Options{.layout = Layout(), .window = window, .strategy = strategy});
    trained_.clear();
    View({kFirst, kSecond});
  }
  void View(const std::vector<NodeId>& workers) {
    view_.members = {{NodeId(1), Role::kServer, 0, ""}};
    for (uint32_t i = 0; i < workers.size(); ++i) view_.members.push_back({workers[i], Role::kWorker, i, ""});
  }
  void Report(NodeId worker) { shares_->OnReport(worker, trained_[worker].share.Encode()); }
  void Compare() {
    now_ += WorkerShares::kInterval;
    shares_->Compare(now_, view_);
  }
  // In each round, each of the workers trains a split.
  void Train(const std::vector<NodeId>& workers, int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (const NodeId worker : workers) {
        trained_[worker].Split();
        Report(worker);
      }
      Compare();
    }
  }
  // The texts of new notices.
  std::vector<std::string> Notices() {
    std::vector<std::string> texts;
    for (const auto& notice : shares_->TakeNotices())
      texts.push_back((notice.over ? "over: " : "") + notice.text);
    return texts;
  }
  const WorkerShares::Skew& SkewOf(NodeId worker) { return *shares_->Find(worker); }

  std::optional<WorkerShares> shares_;
  std::map<NodeId, Trained> trained_;
  protocol::View view_;
  Time now_ = std::chrono::seconds(1000);
};

TEST_F(WorkerSharesTest, SharesThatAreAlikeAreNotSkewed) {
  EXPECT_EQ(shares_->Find(kFirst), nullptr);
  Train({kFirst, kSecond}, 200);
  for (const NodeId worker : {kFirst, kSecond}) {
    EXPECT_NEAR(SkewOf(worker).label, 0, 1e-9);
    EXPECT_NEAR(SkewOf(worker).feature, 0, 1e-9);
    EXPECT_FALSE(SkewOf(worker).label_skewed || SkewOf(worker).feature_skewed);
  }
  EXPECT_THAT(Notices(), IsEmpty());
  EXPECT_EQ(shares_->warnings(), 0u);
}

TEST_F(WorkerSharesTest, OtherLabelsAreAWarningOnceThereAreEnoughSplits) {
  trained_[kFirst].ones = 10;
  trained_[kSecond].ones = 90;
  // The limit is (½ · 2 · 0.5 + √(ln(1000) / 2)) / √n = 2.36 / √n, with n = 2 splits for each round.
  Train({kFirst, kSecond}, 15);
  EXPECT_NEAR(SkewOf(kFirst).label, 0.4, 0.005);
  EXPECT_THAT(Notices(), IsEmpty()) << "it may be a coincidence";
  Train({kFirst, kSecond}, 10);
  EXPECT_NEAR(SkewOf(kFirst).label, 0.4, 0.005);
  EXPECT_NEAR(SkewOf(kSecond).label, 0.4, 0.005);
  EXPECT_TRUE(SkewOf(kFirst).label_skewed && SkewOf(kSecond).label_skewed);
  EXPECT_FALSE(SkewOf(kFirst).feature_skewed);
  const auto notices = Notices();
  ASSERT_THAT(notices, SizeIs(2));
  EXPECT_THAT(notices[0],
              StartsWith("worker 0: label skew 0.40, above 0.39 (total variation distance over 3"));
  EXPECT_THAT(notices[1],
              StartsWith("worker 1: label skew 0.40, above 0.39 (total variation distance over 3"));
  EXPECT_THAT(notices[0], HasSubstr(" splits): its share of the stream is not like that of all workers. Keys "
                                    "choose partitions, and partitions choose workers: publish with a key "
                                    "that mixes labels and features, or without a key; make more partitions "
                                    "than workers; shuffle files that are sorted. With async, "));
  EXPECT_EQ(notices[0].find('\n'), std::string::npos) << "one line";
  EXPECT_EQ(shares_->warnings(), 2u);
  Train({kFirst, kSecond}, 100);
  EXPECT_THAT(Notices(), IsEmpty()) << "it has been said";
}

TEST_F(WorkerSharesTest, ASkewEndsAndBeginsWithoutFlapping) {
  Make({}, 1000);
  for (const uint64_t time : {1u, 2u}) {
    trained_[kFirst].ones = 10;
    trained_[kSecond].ones = 90;
    Train({kFirst, kSecond}, 400);
    EXPECT_NEAR(SkewOf(kFirst).label, 0.4, 0.01) << "what was before is forgotten";
    EXPECT_THAT(Notices(), SizeIs(2));
    EXPECT_EQ(shares_->warnings(), 2 * time);
    trained_[kFirst].ones = trained_[kSecond].ones = 50;
    Train({kFirst, kSecond}, 400);
    EXPECT_NEAR(SkewOf(kFirst).label, 0, 0.01);
    EXPECT_FALSE(SkewOf(kFirst).label_skewed || SkewOf(kSecond).label_skewed);
    EXPECT_THAT(Notices(),
                ::testing::UnorderedElementsAre("over: worker 0: label skew", "over: worker 1: label skew"));
  }
}

// A split is a single draw, however many events it has: a worker that takes splits of pure labels at random
// is not skewed, although its events would be a large sample.
TEST_F(WorkerSharesTest, SplitsThatAreTakenAtRandomAreNoSkew) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Make({}, 1000);
    Rng rng(seed);
    for (int round = 0; round < 300; ++round) {
      for (const NodeId worker : {kFirst, kSecond}) trained_[worker].ones = rng.Chance(0.5) ? 100 : 0;
      Train({kFirst, kSecond}, 1);
    }
    EXPECT_THAT(Notices(), IsEmpty()) << seed;
  }
}

TEST_F(WorkerSharesTest, ASingleWorkerTrainsWhatThereIs) {
  Train({kFirst}, 30);
  EXPECT_TRUE(std::isnan(SkewOf(kFirst).label)) << "the other one has reported nothing";
  EXPECT_TRUE(std::isnan(SkewOf(kFirst).feature));
  trained_[kSecond].ones = 0;
  Train({kSecond}, 30);
  View({kSecond});
  Train({kSecond}, 30);
  EXPECT_TRUE(std::isnan(SkewOf(kSecond).label)) << "the other one has left";
  EXPECT_FALSE(SkewOf(kSecond).label_skewed);
  view_.members.push_back({kFirst, Role::kWorker, 0, "", protocol::Member::State::kStandby});
  Train({kSecond}, 30);
  EXPECT_TRUE(std::isnan(SkewOf(kSecond).label)) << "one that stands by trains nothing";
}

TEST_F(WorkerSharesTest, WhoHasBeenIdleForAWindowIsNotCompared) {
  Make({}, 1000);
  Train({kFirst, kSecond}, 50);
  // A window is 64 splits for each of the two workers.
  Train({kFirst}, 120);
  EXPECT_NEAR(SkewOf(kSecond).label, 0, 1e-9);
  Train({kFirst}, 10);
  EXPECT_TRUE(std::isnan(SkewOf(kSecond).label));
  EXPECT_NEAR(SkewOf(kFirst).label, 0, 1e-9) << "of those that are at work";
  Train({kSecond}, 1);
  EXPECT_NEAR(SkewOf(kSecond).label, 0, 1e-9);
}

TEST_F(WorkerSharesTest, TheFeatureThatDiffersIsNamed) {
  trained_[kSecond].amount = 2;
  Train({kFirst, kSecond}, 60);
  // Means of -1 and 1 around that of all, and a variance of 1 + 1.
  EXPECT_NEAR(SkewOf(kFirst).feature, std::sqrt(0.5), 0.005);
  EXPECT_EQ(SkewOf(kFirst).feature_name, "amount");
  EXPECT_TRUE(SkewOf(kFirst).feature_skewed);
  EXPECT_FALSE(SkewOf(kFirst).label_skewed);
  const auto notices = Notices();
  ASSERT_THAT(notices, SizeIs(2));
  EXPECT_THAT(notices[0], StartsWith("worker 0: feature skew of 'amount' 0.71, above 0."));
  EXPECT_THAT(notices[0], HasSubstr(" (standardised mean difference over "));

  Make({});
  trained_[kSecond].country = 1;
  Train({kFirst, kSecond}, 60);
  EXPECT_NEAR(SkewOf(kFirst).feature, 0.5, 0.005);
  EXPECT_EQ(SkewOf(kFirst).feature_name, "country");
  EXPECT_THAT(Notices()[0], StartsWith("worker 0: feature skew of 'country' 0.50, above 0."));
}

TEST_F(WorkerSharesTest, WorkersWeighWhatTheyTrain) {
  trained_[kFirst].ones = 20;
  trained_[kSecond].ones = 60;
  for (int round = 0; round < 40; ++round) {
    Train({kFirst}, 2);
    Train({kFirst, kSecond}, 1);
  }
  // The share of class 1 in all events is (3 · 20 + 60) / 400.
  EXPECT_NEAR(SkewOf(kFirst).label, 0.1, 0.005);
  EXPECT_NEAR(SkewOf(kSecond).label, 0.3, 0.005);
}

TEST_F(WorkerSharesTest, WhoHasLeftCountsUntilForgotten) {
  View({kFirst, kSecond, kThird});
  trained_[kFirst].ones = 0;
  trained_[kSecond].ones = trained_[kThird].ones = 90;
  Train({kFirst, kSecond, kThird}, 50);
  View({kSecond, kThird});
  Train({kSecond, kThird}, 1);
  EXPECT_NEAR(SkewOf(kSecond).label, 0.3, 0.01);
  shares_->Forget(kFirst);
  Train({kSecond, kThird}, 1);
  EXPECT_NEAR(SkewOf(kSecond).label, 0, 1e-9);
  EXPECT_EQ(shares_->Find(kFirst), nullptr);
}

TEST_F(WorkerSharesTest, ThereIsOneComparisonInASecond) {
  trained_[kSecond].ones = 0;
  Train({kFirst, kSecond}, 20);
  const double skew = SkewOf(kFirst).label;
  EXPECT_NEAR(skew, 0.25, 0.005);
  trained_[kSecond].ones = 100;
  for (int i = 0; i < 20; ++i) trained_[kSecond].Split();
  Report(kSecond);
  now_ += WorkerShares::kInterval / 2;
  shares_->Compare(now_, view_);
  EXPECT_EQ(SkewOf(kFirst).label, skew);
  now_ += WorkerShares::kInterval / 2;
  shares_->Compare(now_, view_);
  EXPECT_NEAR(SkewOf(kFirst).label, 0, 0.01);
}

TEST_F(WorkerSharesTest, BytesThatAreNoLaterShareAreIgnored) {
  trained_[kSecond].ones = 0;
  Train({kFirst, kSecond}, 20);
  const double skew = SkewOf(kFirst).label;
  const Bytes now = trained_[kSecond].share.Encode();
  Trained earlier;
  earlier.Split();
  metrics::ShareLayout other = Layout();
  other.features.pop_back();
  for (const Bytes& bytes : {Bytes(), Bytes(now.size(), std::byte{0xff}), Bytes(now.begin(), now.end() - 1),
                             earlier.share.Encode(), metrics::Share(other).Encode(), now}) {
    shares_->OnReport(kSecond, bytes);
    Compare();
    EXPECT_EQ(SkewOf(kFirst).label, skew);
  }
  Train({kFirst, kSecond}, 20);
  EXPECT_NEAR(SkewOf(kFirst).label, 0.25, 0.005) << "good ones still count";
}

TEST_F(WorkerSharesTest, TheWarningSaysWhatASkewDoesToTheStrategy) {
  for (const auto& [kind, said] :
       {std::pair{StrategyKind::kAsync, "With async, each update pulls the model towards the share of one"},
        std::pair{StrategyKind::kSync, "With sync, a step is the mean over all workers, but batch norm"},
        std::pair{StrategyKind::kAllReduce, "With allreduce, a step is the mean over all workers, but batch"},
        std::pair{StrategyKind::kDownpour,
                  "With downpour, workers train on their own shares for a while and "
                  "drift apart: a smaller n_fetch helps, too"},
        std::pair{StrategyKind::kAveraging,
                  "With averaging, workers train on their own shares for a while "
                  "and drift apart: a smaller period helps, too"}}) {
    Make({.kind = kind});
    trained_[kFirst].ones = 0;
    Train({kFirst, kSecond}, 100);
    const auto notices = Notices();
    ASSERT_THAT(notices, SizeIs(2));
    EXPECT_THAT(notices[0], HasSubstr(said));
  }
}

}  // namespace
}  // namespace leat::report
