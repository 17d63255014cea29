#include "train/step/step_reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "compute/optim/moments.h"
#include "train/collective/testing.h"
#include "train/step/testing.h"

namespace leat::step {
namespace {

using protocol::LaneOutcome;
using protocol::ReducedStep;
using protocol::ReduceStep;
using testing::Bits;
using testing::Computer;
using testing::Data;
using testing::ModelOf;
using testing::Range;
using Kind = LaneOutcome::Kind;

constexpr uint32_t kFull = 8;  // events of a batch
constexpr uint32_t kReducerWidth = 4;
constexpr uint32_t kClasses = 3;

const char* const kMean =
    "{layers: [dense: {units: 6, activation: tanh}, dense: {units: 5, activation: tanh}, dense: {units: 3}], "
    "loss: softmax_cross_entropy}";
// With statistics, which are averaged all the same.
const char* const kSum =
    "{layers: [dense: {units: 6}, batch_norm, dense: {units: 3}], "
    "loss: {type: softmax_cross_entropy, reduction: sum}}";

// The batches of its run, by rows; none: the ledger has them.
using Lane = std::vector<std::vector<uint32_t>>;

std::vector<Lane> FullLanes(uint32_t lanes) {
  std::vector<Lane> made;
  for (uint32_t i = 0; i < lanes; ++i) made.push_back({Range(i * kFull, (i + 1) * kFull)});
  return made;
}
// The last batch is short.
std::vector<Lane> LanesWithAShortOne(uint32_t lanes) {
  auto made = FullLanes(lanes);
  made.back()[0].resize(3);
  return made;
}

uint64_t EventsOf(const std::vector<Lane>& lanes) {
  uint64_t events = 0;
  for (const Lane& lane : lanes) {
    for (const auto& batch : lane) events += batch.size();
  }
  return events;
}

// The sum over all lanes, one after the other, as one computer gets it by itself.
std::vector<float> SumOf(const nn::Model& model, bool sum, const std::vector<Lane>& lanes, const Data& data) {
  Computer computer(model);
  const auto& variables = model.variables();
  const auto add = [&](std::span<float> into, std::span<const float> from, bool first, uint64_t events) {
    for (size_t v = 0; v < variables.size(); ++v) {
      const auto gradients = computer.parameters.gradients(v);
      const auto start = static_cast<size_t>(gradients.data() - computer.parameters.all_gradients().data());
      const float weight =
          events > 0 ? optim::MeanRuleFor(sum, kFull, variables[v].role).weight(events) : 1.0f;
      (first ? optim::SetWeighted : optim::AddWeighted)(into.subspan(start, gradients.size()),
                                                        from.subspan(start, gradients.size()), weight);
    }
  };
  std::vector<float> total(computer.parameters.all_gradients().size());
  bool any = false;
  for (const Lane& lane : lanes) {
    std::vector<float> of_lane(total.size());
    bool any_here = false;
    for (const auto& batch : lane) {
      if (batch.empty()) continue;
      computer.trainer.Step(data.rows(), batch, kFull);
      add(of_lane, computer.Gradients(), !std::exchange(any_here, true), batch.size());
    }
    if (any_here) add(total, of_lane, !std::exchange(any, true), 0);
  }
  return total;
}

struct Member {
  Member(const nn::Model& model, net::Loop& loop, const StepReducerOptions& options)
      : computer(model), reducer(loop, computer.trainer, computer.parameters, options) {}

  // Computes this rank's lanes of the step; the result is ready to be reduced.
  ReduceStep Compute(const std::vector<Lane>& lanes, uint32_t rank, uint32_t members, const Data& data,
                     uint64_t epoch) {
    ReduceStep step;
    for (const Lane& lane : lanes) {
      step.lanes.push_back({lane.empty() ? Kind::kHeld : Kind::kEmpty, 0});
    }
    std::tie(step.first_lane, step.end_lane) =
        protocol::LanesOf(rank, members, static_cast<uint32_t>(lanes.size()));
    std::vector<std::pair<uint32_t, std::span<const uint32_t>>> batches;
    for (uint32_t lane = step.first_lane; lane < step.end_lane; ++lane) {
      for (const auto& batch : lanes[lane]) batches.emplace_back(lane, batch);
    }
    for (size_t i = 0; i < batches.size(); ++i) {
      const auto& [lane, batch] = batches[i];
      const protocol::ComputeLane part{.lane = lane, .first = i == 0, .last = i + 1 == batches.size()};
      const auto outcome = reducer.Compute(part, epoch, data.rows(), batch, kFull, /*noise=*/0);
      LaneOutcome& became = step.lanes[lane];
      if (!outcome.finite) {
        became.kind = Kind::kRejected;
      } else if (outcome.events > 0) {
        if (became.kind == Kind::kEmpty) became.kind = Kind::kGradient;
        became.events += outcome.events;
      }
    }
    return step;
  }
  ReduceStep Compute(const std::vector<Lane>& lanes, uint32_t rank, uint32_t members, const Data& data) {
    return Compute(lanes, rank, members, data, reducer.epoch());
  }
  void Reduce(const ReduceStep& step) {
    ended.reset();
    reducer.Reduce(step, [this](Result<ReducedStep> result) {
      sums = computer.Gradients();
      if (result.ok() && !result->terms.empty())
        optim::SetSum(sums, std::exchange(result->terms, {}), 0, /*weight=*/1);
      reducer.Release();
      ended = std::move(result);
    });
  }
  std::vector<float> Gradients() const { return sums; }

  Computer computer;
  StepReducer reducer;
  std::vector<float> sums;
  std::optional<Result<ReducedStep>> ended;
};

// Members that reduce with real groups.
class Team {
 public:
  Team(uint32_t count, const char* yaml, const StepReducerOptions& options, bool one_shot = false,
       const std::vector<uint32_t>& running = {})
      : model(ModelOf(yaml, kReducerWidth, running)),
        cluster(
            {.members = count, .options = SmallPieces(one_shot && count <= protocol::kMaxOneShotMembers)}) {
    for (uint32_t rank = 0; rank < count; ++rank) {
      members.push_back(std::make_unique<Member>(model, *cluster[rank].loop, options));
    }
    Join();
  }
  uint32_t size() const { return static_cast<uint32_t>(members.size()); }
  Member& operator[](size_t rank) { return *members[rank]; }

  void Join() {
    ASSERT_TRUE(cluster.FormAll());
    for (uint32_t rank = 0; rank < size(); ++rank) members[rank]->reducer.SetGroup(cluster[rank].all.get());
  }
  void Compute(uint32_t rank, const std::vector<Lane>& lanes, const Data& data) {
    members[rank]->Reduce(members[rank]->Compute(lanes, rank, size(), data));
  }
  bool AllEnded() {
    return cluster.Run([&] {
      return std::ranges::all_of(members, [](const auto& member) { return member->ended.has_value(); });
    });
  }
  // Runs one step on all members; empty unless it succeeds on all. Expects the same result on all.
  std::vector<float> Step(const std::vector<Lane>& lanes, const Data& data) {
    for (uint32_t rank = 0; rank < size(); ++rank) Compute(rank, lanes, data);
    return AllEnded() ? Agreed() : std::vector<float>();
  }
  std::vector<float> Agreed() {
    for (const auto& member : members) {
      if (!member->ended->ok() || !(*member->ended)->finite) return {};
      EXPECT_EQ(Bits(member->Gradients()), Bits(members[0]->Gradients()));
      EXPECT_EQ((*member->ended)->lanes, (*members[0]->ended)->lanes);
    }
    return members[0]->Gradients();
  }

  const nn::Model model;
  collective::testing::Cluster cluster;
  std::vector<std::unique_ptr<Member>> members;

 private:
  // Small limits, so that a bucket of a small model takes several pieces.
  static collective::PeerOptions SmallPieces(bool one_shot) {
    collective::PeerOptions options;
    options.one_shot = one_shot;
    options.exchange_bytes = 64;
    options.piece_bytes = 64;
    options.eager_bytes = 128;
    return options;
  }
};

void ExpectNear(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-5) << "element " << i;
}

// ---- the numbers

struct Way {
  bool deterministic = false, overlap = true, one_shot = false;
};
class Ways : public ::testing::TestWithParam<Way> {
 protected:
  StepReducerOptions Options(bool sum = false) const {
    return {.sum = sum,
            .full_batch = kFull,
            .deterministic = GetParam().deterministic,
            .overlap = GetParam().overlap,
            .bucket_bytes = 128};
  }
};
INSTANTIATE_TEST_SUITE_P(All, Ways,
                         ::testing::Values(Way{}, Way{false, false}, Way{true, true}, Way{false, true, true},
                                           Way{false, false, true}, Way{true, true, true}),
                         [](const auto& given) {
                           return std::string(given.param.deterministic ? "Deterministic"
                                              : given.param.overlap     ? "Overlapped"
                                                                        : "AfterAll") +
                                  (given.param.one_shot ? "InOneShot" : "");
                         });

TEST_P(Ways, LanesOfAllMembersAreAddedUp) {
  const Data data(64, kReducerWidth, kClasses);
  for (const uint32_t members : {1u, 2u, 3u, 5u}) {
    Team team(members, kMean, Options(), GetParam().one_shot);
    // Leftovers of one step do not count in the next.
    for (const uint32_t lanes : {4u, 1u, 7u, 3u}) {
      SCOPED_TRACE(std::to_string(lanes) + " lanes of " + std::to_string(members));
      const auto step = LanesWithAShortOne(lanes);
      ExpectNear(team.Step(step, data), SumOf(team.model, false, step, data));
      const auto& became = (*team[0].ended)->lanes;
      ASSERT_EQ(became.size(), lanes);
      EXPECT_EQ(became.back(), (LaneOutcome{Kind::kGradient, 3}));
      EXPECT_EQ(became.front(), (LaneOutcome{Kind::kGradient, lanes > 1 ? kFull : 3}));
    }
  }
}

TEST_P(Ways, TheMeanIsThatOfOneWorkersJointBatch) {
  const Data data(64, kReducerWidth, kClasses);
  const auto lanes = LanesWithAShortOne(5);
  const uint64_t events = EventsOf(lanes);
  for (const uint32_t members : {1u, 2u, 3u}) {
    Team team(members, kMean, Options(), GetParam().one_shot);
    auto mean = team.Step(lanes, data);
    optim::Scale(mean, optim::MeanRule{false, kFull}.scale(events));
    Computer joint(team.model);
    joint.trainer.Step(data.rows(), Range(0, static_cast<uint32_t>(events)), static_cast<uint32_t>(events));
    ExpectNear(mean, joint.Gradients());
  }
}

TEST_P(Ways, OfASumGradientsAreAddedAndStatisticsAveraged) {
  const Data data(64, kReducerWidth, kClasses);
  const auto lanes = LanesWithAShortOne(4);
  for (const uint32_t members : {1u, 3u}) {
    Team team(members, kSum, Options(true), GetParam().one_shot);
    const auto sum = team.Step(lanes, data);
    ExpectNear(sum, SumOf(team.model, true, lanes, data));
    ASSERT_FALSE(sum.empty());
    const auto of_mean = SumOf(team.model, false, lanes, data);
    EXPECT_NE(sum, of_mean) << "the short lane weighs otherwise";
  }
}

TEST_P(Ways, RunsOfSeveralBatchesAndLanesWithoutAny) {
  const Data data(96, kReducerWidth, kClasses);
  // Lanes with two batches, the first one empty; none (held); one, empty; two; two, the last one empty.
  const std::vector<Lane> lanes{
      {{}, Range(0, 8)}, {}, {{}}, {Range(16, 24), Range(30, 35)}, {Range(40, 47), {}}};
  for (const uint32_t members : {1u, 2u, 3u, 5u, 9u}) {
    SCOPED_TRACE(members);
    Team team(members, kMean, Options(), GetParam().one_shot);
    ExpectNear(team.Step(FullLanes(3), data), SumOf(team.model, false, FullLanes(3), data));
    ExpectNear(team.Step(lanes, data), SumOf(team.model, false, lanes, data));
    EXPECT_THAT((*team[0].ended)->lanes,
                ::testing::ElementsAre(LaneOutcome{Kind::kGradient, 8}, LaneOutcome{Kind::kHeld, 0},
                                       LaneOutcome{Kind::kEmpty, 0}, LaneOutcome{Kind::kGradient, 13},
                                       LaneOutcome{Kind::kGradient, 7}));
  }
}

// Moments of all lanes, merged in order, as one computer gets them by itself.
std::vector<float> MomentsOf(const nn::Model& model, const std::vector<Lane>& lanes, const Data& data) {
  Computer computer(model);
  const auto pushed = [&] { return computer.parameters.gradients(size_t{0}); };
  std::vector<float> merged(pushed().size());
  for (const Lane& lane : lanes) {
    std::vector<float> of_lane(merged.size());
    for (const auto& batch : lane) {
      if (batch.empty()) continue;
      computer.trainer.Step(data.rows(), batch, kFull);
      optim::MergeMoments(of_lane, pushed());
    }
    optim::MergeMoments(merged, of_lane);
  }
  return merged;
}

TEST_P(Ways, MomentsOfAllLanesAreMergedInTheirOrderOnEachMember) {
  Data data(96, kReducerWidth, kClasses);
  const std::vector<std::vector<Lane>> steps{
      LanesWithAShortOne(5),
      {{{}, Range(0, 8)}, {}, {{}}, {Range(16, 24), Range(30, 35)}, {Range(40, 47), {}}},
      FullLanes(1),
      LanesWithAShortOne(7)};
  for (const uint32_t members : {1u, 2u, 3u, 5u}) {
    SCOPED_TRACE(members);
    Team team(members, kMean, Options(), GetParam().one_shot, {0, 2});
    const auto& parameters = team[0].computer.parameters;
    const auto trained =
        static_cast<size_t>(parameters.gradients(size_t{1}).data() - parameters.all_gradients().data());
    for (const auto& lanes : steps) {
      const auto sum = team.Step(lanes, data), expected = SumOf(team.model, false, lanes, data);
      ASSERT_EQ(sum.size(), expected.size());
      const auto begin = static_cast<ptrdiff_t>(trained);
      ExpectNear({sum.begin() + begin, sum.end()}, {expected.begin() + begin, expected.end()});
      EXPECT_THAT(std::vector(sum.begin(), sum.begin() + begin), ::testing::Each(0.0f))
          << "words are not added";
      const auto moments = MomentsOf(team.model, lanes, data);
      for (const auto& member : team.members) EXPECT_EQ(Bits((**member->ended).moments), Bits(moments));
    }
    // Leftovers of a rejected step do not count in the next.
    const float good = std::exchange(data.features[1], std::numeric_limits<float>::quiet_NaN());
    for (uint32_t rank = 0; rank < members; ++rank) team.Compute(rank, FullLanes(4), data);
    ASSERT_TRUE(team.AllEnded());
    EXPECT_EQ((**team[0].ended).lanes[0].kind, Kind::kRejected);
    data.features[1] = good;
    team.Step(FullLanes(3), data);
    EXPECT_EQ(Bits((**team[0].ended).moments), Bits(MomentsOf(team.model, FullLanes(3), data)));
  }
}

TEST_P(Ways, AStepThatNobodyHasAnythingOfIsNothing) {
  const Data data(32, kReducerWidth, kClasses);
  Team team(3, kMean, Options(), GetParam().one_shot);
  ASSERT_FALSE(team.Step(FullLanes(4), data).empty());
  EXPECT_THAT(team.Step({{{}}, {}, {{}}}, data), ::testing::Each(0.0f));
}

TEST_P(Ways, ARejectedLaneIsSeenByAllAndNothingOfItStays) {
  Data data(64, kReducerWidth, kClasses);
  const Data tame = data;
  for (const uint32_t bad : {0u, 2u, 4u}) {
    SCOPED_TRACE(bad);
    data = tame;
    data.features[bad * kFull * kReducerWidth] = std::numeric_limits<float>::quiet_NaN();
    Team team(3, kMean, Options(), GetParam().one_shot);
    const auto lanes = FullLanes(5);
    for (uint32_t rank = 0; rank < 3; ++rank) team.Compute(rank, lanes, data);
    ASSERT_TRUE(team.AllEnded());
    for (const auto& member : team.members) {
      ASSERT_TRUE(member->ended->ok());
      for (uint32_t lane = 0; lane < 5; ++lane) {
        EXPECT_EQ((**member->ended).lanes[lane].kind, lane == bad ? Kind::kRejected : Kind::kGradient);
      }
    }
    ExpectNear(team.Step(lanes, tame), SumOf(team.model, false, lanes, tame));
  }
}

// Each lane is finite, their sum is not.
TEST_P(Ways, ASumThatIsNotFiniteIsSeenByAll) {
  const char* const model = "{layers: [dense: {units: 1}], loss: {type: squared_error, reduction: sum}}";
  Data data(2, kReducerWidth, 2);
  std::ranges::fill(data.features, 1e19f);
  std::ranges::fill(data.labels, 1.2e19f);
  Team team(2, model, Options(true), GetParam().one_shot);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    for (float& w : team[rank].computer.parameters.values(size_t{0})) w = 0;
    team.Compute(rank, {{{0}}, {{1}}}, data);
  }
  ASSERT_TRUE(team.AllEnded());
  for (const auto& member : team.members) {
    ASSERT_TRUE(member->ended->ok());
    EXPECT_FALSE((**member->ended).finite);
    EXPECT_THAT((**member->ended).lanes, ::testing::Each(LaneOutcome{Kind::kGradient, 1}));
  }
}

TEST(StepReducer, InTheOrderOfLanesTheBitsAreTheSameWhoeverHasThem) {
  const Data data(128, kReducerWidth, kClasses);
  const std::vector<std::vector<Lane>> steps{
      LanesWithAShortOne(7),
      {{Range(3, 9), Range(20, 28)}, {}, {Range(30, 31)}, {{}}, {Range(50, 57), Range(60, 68)}},
      {{}, {{}}, {Range(30, 38)}, {Range(40, 48)}}};
  for (const auto& [yaml, sum] : {std::pair(kMean, false), std::pair(kSum, true)}) {
    for (const uint32_t members : {1u, 2u, 3u, 4u, 8u}) {
      Team team(members, yaml, {.sum = sum, .full_batch = kFull, .deterministic = true, .bucket_bytes = 128});
      for (size_t i = 0; i < steps.size(); ++i) {
        SCOPED_TRACE("step " + std::to_string(i) + " of " + std::to_string(members));
        EXPECT_EQ(Bits(team.Step(steps[i], data)), Bits(SumOf(team.model, sum, steps[i], data)));
      }
    }
  }
}

// ---- when buckets leave

// A group that records the buckets that are started.
class Recorder : public collective::AllReduce {
 public:
  struct Started {
    collective::Bucket bucket;
    net::Done done;
    std::vector<float> given;  // copy of the data at the start
  };
  void Start(collective::Bucket bucket, net::Done done) override {
    const auto bytes = bucket.data;
    Started one{std::move(bucket), std::move(done), {}};
    if (one.bucket.reduce == collective::kSumF32) {
      const auto* at = reinterpret_cast<const float*>(bytes.data());
      one.given.assign(at, at + bytes.size() / sizeof(float));
    }
    started.push_back(std::move(one));
    if (on_start) on_start();
  }
  void Abort(Status) override {}
  uint32_t rank() const override { return 0; }
  uint32_t members() const override { return 1; }
  std::optional<uint32_t> lost() const override { return std::nullopt; }

  // The sum over a single member is its own data.
  void EndAll(const Status& status = {}) {
    for (auto& one : std::exchange(started, {})) one.done(status);
  }

  std::vector<Started> started;
  std::function<void()> on_start;
};

class Alone : public ::testing::Test {
 protected:
  Alone() { loop_.RunOnce(Duration::zero()); }  // this is its thread

  void Begin(StepReducerOptions options) {
    options.full_batch = kFull;
    member_.emplace(model_, loop_, options);
    member_->reducer.SetGroup(&group_);
  }
  protocol::Parameters& parameters() { return member_->computer.parameters; }
  // The first variable of each bucket that was started, in their order.
  std::vector<size_t> FirstVariables() {
    std::vector<size_t> firsts;
    for (const auto& one : group_.started) {
      if (one.bucket.reduce != collective::kSumF32) continue;
      for (size_t v = 0; v < model_.variables().size(); ++v) {
        if (std::as_writable_bytes(parameters().gradients(v)).data() == one.bucket.data.data())
          firsts.push_back(v);
      }
    }
    return firsts;
  }

  const nn::Model model_ = ModelOf(kMean, kReducerWidth);
  const Data data_{64, kReducerWidth, kClasses};
  net::Loop loop_;
  Recorder group_;
  std::optional<Member> member_;
};

// A group that supports gather only.
class GatherOnlyRecorder final : public Recorder {
 public:
  bool supports_gather_only() const override { return true; }
};

TEST_F(Alone, WhatIsLeftApartLeavesInOnePieceAsSoonAsAllIsThere) {
  GatherOnlyRecorder group;
  for (const bool overlap : {true, false}) {
    Begin({.overlap = overlap, .bucket_bytes = 1});
    member_->reducer.SetGroup(&group);
    const auto step = member_->Compute(FullLanes(1), 0, 1, data_);
    EXPECT_EQ(group.started.size(), overlap ? 1u : 0u);
    member_->Reduce(step);
    ASSERT_EQ(group.started.size(), 2u) << "and what has become of the lanes";
    EXPECT_EQ(group.started[0].bucket.data.data(), std::as_bytes(parameters().all_gradients()).data());
    EXPECT_EQ(group.started[0].bucket.data.size(), parameters().all_gradients().size_bytes());
    EXPECT_TRUE(group.started[0].bucket.gather_only);
    EXPECT_FALSE(group.started[1].bucket.gather_only);
    EXPECT_TRUE(parameters().gradient_buffer().shared());
    group.EndAll();
    ASSERT_TRUE(member_->ended.has_value() && member_->ended->ok());
    EXPECT_FALSE(member_->sums.empty());
  }
}

TEST_F(Alone, BucketsLeaveWhileBackPropagationGoesOnLastVariablesFirst) {
  ASSERT_EQ(model_.variables().size(), 6u);
  Begin({.bucket_bytes = 1});  // a bucket for each variable
  std::vector<size_t> still_zero;
  group_.on_start = [&] {
    size_t zero = 0;
    for (size_t v = 0; v < 6; ++v) zero += std::ranges::count(parameters().gradients(v), 0.0f) > 0;
    still_zero.push_back(zero);
  };
  const auto step = member_->Compute(FullLanes(1), 0, 1, data_);
  EXPECT_THAT(FirstVariables(), ::testing::ElementsAre(5, 4, 3, 2, 1, 0));
  ASSERT_EQ(still_zero.size(), 6u);
  EXPECT_GE(still_zero[0], 4u) << "the first layers are still to come";
  EXPECT_EQ(still_zero[5], 0u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_THAT(group_.started[i].given, ::testing::ElementsAreArray(parameters().gradients(5 - i)))
        << "complete when it leaves";
  }
  member_->Reduce(step);
  EXPECT_EQ(group_.started.size(), 7u) << "and what has become of the lane";
  EXPECT_EQ(group_.started.back().bucket.reduce, collective::kMaxU64);
  group_.EndAll();
  ASSERT_TRUE(member_->ended.has_value());
  EXPECT_TRUE(member_->ended->ok());
}

TEST_F(Alone, OfSeveralLanesOnlyTheLastIsOverlapped) {
  Begin({.bucket_bytes = 1});
  const auto lanes = FullLanes(2);
  const protocol::ComputeLane first{.lane = 0, .first = true, .last = false};
  member_->reducer.Compute(first, member_->reducer.epoch(), data_.rows(), lanes[0][0], kFull, 0);
  EXPECT_TRUE(group_.started.empty());
  const protocol::ComputeLane last{.lane = 1, .first = false, .last = true};
  member_->reducer.Compute(last, member_->reducer.epoch(), data_.rows(), lanes[1][0], kFull, 0);
  EXPECT_EQ(group_.started.size(), 6u);
  ExpectNear(member_->computer.Gradients(), SumOf(model_, false, lanes, data_));
}

TEST_F(Alone, BucketsHoldWholeVariablesUpToTheirSize) {
  // The variables have 4·6, 6, 6·5, 5, 5·3, 3 floats.
  for (const auto& [bytes, firsts] : {std::pair<uint64_t, std::vector<size_t>>{1 << 20, {0}},
                                      {4 * 18, {4, 2, 0}},
                                      {4 * 19, {3, 2, 0}},
                                      {4 * 24, {2, 0}}}) {
    SCOPED_TRACE(bytes);
    Begin({.bucket_bytes = bytes});
    member_->Compute(FullLanes(1), 0, 1, data_);
    EXPECT_EQ(FirstVariables(), firsts);
    // Buckets hold all gradients, one bucket behind the other.
    const auto all = std::as_writable_bytes(parameters().all_gradients());
    const std::byte* end = nullptr;
    for (const auto& one : group_.started) {
      const auto* now = reinterpret_cast<const float*>(one.bucket.data.data());
      EXPECT_THAT(one.given, ::testing::ElementsAreArray(now, one.given.size())) << "complete when it leaves";
      if (end != nullptr) {
        EXPECT_LE(one.bucket.data.data() + one.bucket.data.size(), end);
        EXPECT_LT(static_cast<size_t>(end - one.bucket.data.data() - one.bucket.data.size()),
                  Buffer::kAlignment);
      }
      end = one.bucket.data.data();
    }
    EXPECT_EQ(end, all.data());
    group_.started.clear();
  }
}

TEST_F(Alone, NothingLeavesBeforeAllIsThereWhereItMayNot) {
  for (const bool deterministic : {false, true}) {
    Begin({.deterministic = deterministic, .overlap = deterministic, .bucket_bytes = 1});
    const auto step = member_->Compute(FullLanes(1), 0, 1, data_);
    EXPECT_TRUE(group_.started.empty());
    member_->Reduce(step);
    EXPECT_EQ(group_.started.size(), 7u);
    EXPECT_THAT(FirstVariables(), ::testing::ElementsAre(5, 4, 3, 2, 1, 0));
    group_.EndAll();
    EXPECT_TRUE(member_->ended.has_value());
  }
}

TEST_F(Alone, FromAnotherThreadBucketsLeaveByTheLoop) {
  Begin({.bucket_bytes = 1});
  ReduceStep step;
  std::thread computes(
      [&, epoch = member_->reducer.epoch()] { step = member_->Compute(FullLanes(1), 0, 1, data_, epoch); });
  computes.join();
  EXPECT_TRUE(group_.started.empty());
  loop_.RunOnce(Duration::zero());
  EXPECT_THAT(FirstVariables(), ::testing::ElementsAre(5, 4, 3, 2, 1, 0));
  member_->Reduce(step);
  EXPECT_EQ(group_.started.size(), 7u);
}

TEST_F(Alone, AFailureOfAnyBucketIsTheSteps) {
  Begin({.bucket_bytes = 1});
  for (const size_t which : {0, 3, 6, 7}) {
    SCOPED_TRACE(which);
    member_->reducer.SetGroup(&group_);
    member_->Reduce(member_->Compute(FullLanes(1), 0, 1, data_));
    auto started = std::exchange(group_.started, {});
    ASSERT_EQ(started.size(), 7u);
    for (size_t i = 0; i < started.size(); ++i) {
      EXPECT_FALSE(member_->ended.has_value());
      started[i].done(i == which ? Status(Code::kUnavailable, "rank 1 is gone") : Status());
    }
    ASSERT_TRUE(member_->ended.has_value());
    // The next group does not know of it.
    EXPECT_EQ(member_->ended->ok(), which == 7);
    if (!member_->ended->ok()) {
      EXPECT_EQ(member_->ended->status(), Status(Code::kUnavailable, "rank 1 is gone"));
    }
  }
}

// A bucket may fail before this member has finished its own computation.
TEST_F(Alone, AFailureBeforeTheStepIsReducedIsToldThen) {
  Begin({.bucket_bytes = 1});
  const auto step = member_->Compute(FullLanes(1), 0, 1, data_);
  group_.EndAll({Code::kUnavailable, "rank 1 is gone"});
  member_->Reduce(step);
  EXPECT_FALSE(member_->ended.has_value());
  group_.EndAll({Code::kUnavailable, "rank 1 is gone"});
  ASSERT_TRUE(member_->ended.has_value());
  EXPECT_FALSE(member_->ended->ok());
}

TEST_F(Alone, ALaneThatNobodyHasIsSaid) {
  Begin({});
  auto step = member_->Compute(FullLanes(2), 0, 2, data_);
  for (const uint64_t word : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 63 | uint64_t{7} << 32}) {
    SCOPED_TRACE(word);
    member_->Reduce(step);
    const auto words = group_.started.back().bucket.data;
    std::memcpy(words.data() + 8, &word, sizeof(word));
    group_.EndAll();
    ASSERT_TRUE(member_->ended.has_value());
    EXPECT_EQ(member_->ended->status().code(), Code::kDataLoss);
  }
}

// ---- groups that end

TEST_F(Alone, NothingOfAnEarlierGroupArrives) {
  Begin({.bucket_bytes = 1});
  member_->Reduce(member_->Compute(FullLanes(1), 0, 1, data_));
  const auto stale = std::exchange(group_.started, {});
  member_->reducer.SetGroup(nullptr);
  for (const auto& one : stale) one.done({Code::kAborted, "a new group is being formed"});
  EXPECT_FALSE(member_->ended.has_value());
  // With another one under way.
  Recorder next;
  member_->reducer.SetGroup(&next);
  const auto step = member_->Compute(FullLanes(1), 0, 1, data_);
  EXPECT_EQ(next.started.size(), 6u);
  next.EndAll();
  EXPECT_FALSE(member_->ended.has_value()) << "whoever waited for the former step";
  member_->Reduce(step);
  for (const auto& one : stale) one.done({Code::kAborted, "a new group is being formed"});
  EXPECT_FALSE(member_->ended.has_value());
  next.EndAll();
  ASSERT_TRUE(member_->ended.has_value());
  EXPECT_TRUE(member_->ended->ok());
}

TEST_F(Alone, WhatWasComputedForAnEarlierGroupDoesNotLeave) {
  Begin({.bucket_bytes = 1});
  const uint64_t earlier = member_->reducer.epoch();
  Recorder next;
  for (const bool gather_only : {true, false}) {
    std::thread computes;
    if (gather_only) {
      // Its words to the loop are still under way when the group changes.
      computes = std::thread([&] { member_->Compute(FullLanes(1), 0, 1, data_, earlier); });
      computes.join();
    }
    member_->reducer.SetGroup(nullptr);
    member_->reducer.SetGroup(&next);
    // Or it has begun for the one before.
    if (!gather_only) member_->Compute(FullLanes(1), 0, 1, data_, earlier);
    loop_.RunOnce(Duration::zero());
    EXPECT_TRUE(group_.started.empty());
    EXPECT_TRUE(next.started.empty());
  }
  const auto lanes = LanesWithAShortOne(3);
  member_->Reduce(member_->Compute(lanes, 0, 1, data_));
  next.EndAll();
  ASSERT_TRUE(member_->ended.has_value() && member_->ended->ok());
  ExpectNear(member_->computer.Gradients(), SumOf(model_, false, lanes, data_));
}

TEST_F(Alone, WhereItIsDestroyedNothingIsCalled) {
  Begin({.bucket_bytes = 1});
  const uint64_t epoch = member_->reducer.epoch();
  ReduceStep step;
  std::thread computes([&] { step = member_->Compute(FullLanes(1), 0, 1, data_, epoch); });
  computes.join();
  member_->Reduce(step);
  bool told = false;
  member_->reducer.Reduce(step, [&](const auto&) { told = true; });
  member_.reset();
  group_.EndAll();
  loop_.RunOnce(Duration::zero());
  EXPECT_FALSE(told);
}

TEST(StepReducer, AGroupThatEndsInTheMiddleAndTheNextOne) {
  const Data data(128, kReducerWidth, kClasses);
  for (const bool deterministic : {false, true}) {
    Team team(3, kMean, {.full_batch = kFull, .deterministic = deterministic, .bucket_bytes = 128});
    const auto before = LanesWithAShortOne(5);
    ExpectNear(team.Step(before, data), SumOf(team.model, false, before, data));
    // Member 1 does not come.
    for (auto& member : team.members) member->ended.reset();
    team.Compute(0, FullLanes(6), data);
    team.Compute(2, FullLanes(6), data);
    int turns = 0;
    ASSERT_TRUE(team.cluster.Run([&] { return ++turns > 50; }));
    // Each role aborts its former group and destroys it later.
    std::vector<std::unique_ptr<collective::PeerAllReduce>> retired;
    for (uint32_t rank = 0; rank < 3; ++rank) {
      team[rank].reducer.SetGroup(nullptr);
      team.cluster[rank].all->Abort({Code::kAborted, "a new group is being formed"});
      retired.push_back(std::move(team.cluster[rank].all));
    }
    team.cluster.NextGroup();
    team.Join();
    for (const auto& member : team.members) EXPECT_FALSE(member->ended.has_value());
    const auto after = LanesWithAShortOne(4);
    ExpectNear(team.Step(after, data), SumOf(team.model, false, after, data));
    retired.clear();
    ExpectNear(team.Step(before, data), SumOf(team.model, false, before, data));
  }
}

// ---- memory that peers read

class Held : public Alone, public ::testing::WithParamInterface<bool> {
 protected:
  // A step whose buckets' memory somebody still holds afterwards.
  Buffer StepThatIsLookedAt() {
    Begin({.deterministic = GetParam(), .bucket_bytes = 1});
    member_->Reduce(member_->Compute(FullLanes(1), 0, 1, data_));
    const Buffer held = group_.started.front().bucket.memory;
    EXPECT_EQ(held.data(), reinterpret_cast<std::byte*>(parameters().all_gradients().data()));
    EXPECT_EQ(group_.started[5].bucket.memory.data(), held.data());
    // A result, which deterministic ones come to only here.
    for (float& g : parameters().all_gradients()) g = 42;
    group_.EndAll();
    return held;
  }
  static void ExpectUntouched(const Buffer& held) {
    const auto* floats = reinterpret_cast<const float*>(held.data());
    EXPECT_THAT(std::span(floats, held.size() / sizeof(float)), ::testing::Each(42.0f));
  }
};
INSTANTIATE_TEST_SUITE_P(All, Held, ::testing::Bool(),
                         [](const auto& given) { return given.param ? "Deterministic" : "Overlapped"; });

TEST_P(Held, ByAnotherStep) {
  const Buffer held = StepThatIsLookedAt();
  const auto lanes = FullLanes(2);
  member_->Reduce(member_->Compute(lanes, 0, 1, data_));
  ExpectUntouched(held);
  EXPECT_NE(parameters().gradient_buffer().data(), held.data());
  EXPECT_EQ(group_.started.front().bucket.memory.data(), parameters().gradient_buffer().data());
  group_.EndAll();
}

TEST_P(Held, ByAStepWithoutALaneOfThisMember) {
  for (const bool empty : {false, true}) {
    SCOPED_TRACE(empty ? "its only batch has no event" : "its run is held");
    const Buffer held = StepThatIsLookedAt();
    member_->Reduce(member_->Compute({empty ? Lane{{}} : Lane{}}, 0, 1, data_));
    ExpectUntouched(held);
    EXPECT_NE(parameters().gradient_buffer().data(), held.data());
    group_.EndAll();
    ASSERT_TRUE(member_->ended.has_value() && member_->ended->ok());
  }
}

TEST_P(Held, ByTheNextGroup) {
  Begin({.deterministic = GetParam(), .bucket_bytes = 1});
  member_->Reduce(member_->Compute(FullLanes(1), 0, 1, data_));
  const Buffer held = group_.started.front().bucket.memory;
  for (float& g : parameters().all_gradients()) g = 42;
  member_->reducer.SetGroup(nullptr);
  group_.started.clear();
  member_->reducer.SetGroup(&group_);
  member_->Reduce(member_->Compute(FullLanes(2), 0, 1, data_));
  ExpectUntouched(held);
  group_.EndAll();
}

TEST_P(Held, NobodyHoldsItAndItStaysTheSame) {
  Begin({.deterministic = GetParam(), .bucket_bytes = 1});
  const auto* memory = parameters().all_gradients().data();
  for (int i = 0; i < 3; ++i) {
    member_->Reduce(member_->Compute(i == 1 ? std::vector<Lane>{{}} : FullLanes(2), 0, 1, data_));
    group_.EndAll();
    EXPECT_EQ(parameters().all_gradients().data(), memory);
  }
}

// ---- threads

// Each member computes on a thread of its own while its buckets move on the loops'.
TEST(StepReducerThreads, MembersComputeWhileTheLoopsMoveTheirBuckets) {
  constexpr uint32_t kMembers = 3;
  const Data data(128, kReducerWidth, kClasses);
  for (const bool deterministic : {false, true}) {
    const StepReducerOptions options{
        .full_batch = kFull, .deterministic = deterministic, .bucket_bytes = 128};
    Team team(kMembers, kMean, options), on_one(kMembers, kMean, options);
    for (uint32_t i = 0; i < 20; ++i) {
      SCOPED_TRACE(i);
      const auto lanes = LanesWithAShortOne(1 + i % 7);
      std::vector<ReduceStep> steps(kMembers);
      std::atomic<uint32_t> computed{0};
      std::vector<std::thread> threads;
      for (uint32_t rank = 0; rank < kMembers; ++rank) {
        threads.emplace_back([&, rank, epoch = team[rank].reducer.epoch()] {
          steps[rank] = team[rank].Compute(lanes, rank, kMembers, data, epoch);
          ++computed;
        });
      }
      EXPECT_TRUE(team.cluster.Run([&] { return computed == kMembers; }));
      for (auto& thread : threads) thread.join();
      for (uint32_t rank = 0; rank < kMembers; ++rank) team[rank].Reduce(steps[rank]);
      ASSERT_TRUE(team.AllEnded());
      EXPECT_EQ(Bits(team.Agreed()), Bits(on_one.Step(lanes, data)));
    }
  }
}

}  // namespace
}  // namespace leat::step
