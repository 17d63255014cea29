// Moments on the server: what batches push is merged once each, in lane order where there are lanes.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "base/rng.h"
#include "compute/optim/moments.h"
#include "protocol/server/server.h"

namespace leat::protocol {
namespace {

const NodeId kMomentsServer(1), kMomentsWorker(20);
constexpr Incarnation kMomentsIncarnation(7);
constexpr uint32_t kMomentsBatch = 8;
constexpr size_t kFeatures = 3;
constexpr SliceId kMoments(0);

// The numbers that a batch of one lane pushes for the moments: every merge rounds them.
std::vector<float> Pushed(uint64_t step, uint32_t lane) {
  Rng rng(step * 1009 + lane);
  std::vector<float> words(kFeatures * optim::kMomentWords);
  for (size_t i = 0; i < kFeatures; ++i) {
    optim::PutMoments(words, i, {1 + rng.Below(kMomentsBatch), 10 * rng.Normal(), rng.Uniform()});
  }
  return words;
}

// As u64: words are no numbers, and may be NaN.
std::vector<uint64_t> Bits(std::span<const float> words) {
  std::vector<uint64_t> bits;
  for (size_t i = 0; i < kFeatures; ++i) {
    const optim::Moments moments = optim::GetMoments(words, i);
    bits.insert(bits.end(),
                {moments.count, std::bit_cast<uint64_t>(moments.mean), std::bit_cast<uint64_t>(moments.m2)});
  }
  return bits;
}

class ServerMomentsTest : public ::testing::Test {
 protected:
  void Make(const StrategyConfig& strategy, optim::Kind optimizer = optim::Kind::kAdam) {
    ServerConfig config;
    config.table = MakeSlices(
        {{"moments", Shape{3, kFeatures, 2}, {}, optim::VariableRole::kMoments}, {"w", Shape{40}, {}}}, 1, 4);
    config.optimizer = optim::Defaults(optimizer);
    config.strategy = strategy_ = strategy;
    slices_ = static_cast<uint32_t>(config.table.slices.size());
    ASSERT_EQ(config.table.slices[0], (SliceSpec{0, 0, 6 * kFeatures}));
    ASSERT_EQ(config.table.slices[1].variable, 1u) << "moments are one slice";
    server_ = std::make_unique<Server>(config);
    server_->OnJoined(kMomentsServer);
    server_->OnHeartbeatReply(Orders(kMomentsIncarnation));
  }
  static StrategyConfig Stepped(StrategyKind kind, uint32_t lanes, uint32_t backup = 0) {
    StrategyConfig strategy;
    strategy.kind = kind;
    strategy.lanes = lanes;
    strategy.backup = backup;
    if (kind == StrategyKind::kSsp) strategy.staleness = 2;
    return strategy;
  }

  ServerHeartbeatReply Orders(Incarnation incarnation, const std::string& directory = "") {
    ServerHeartbeatReply reply;
    View& view = reply.view.emplace();
    view.generation = Generation(10);
    view.members.push_back({kMomentsServer, Role::kServer, 0, "here"});
    for (uint32_t i = 0; i < 8; ++i) {
      view.members.push_back({NodeId(kMomentsWorker.value + i), Role::kWorker, i, ""});
    }
    reply.start.resize(8);
    for (uint32_t i = 0; i < slices_; ++i) {
      reply.orders.push_back({SliceId(i), incarnation, directory, "shard", 0});
    }
    return reply;
  }

  // Run t of partition l; in strategies with steps, lane l of step t.
  PushRequest Push(uint64_t step, uint32_t lane, Disposition disposition = Disposition::kGradient) {
    PushRequest request;
    request.sequence = ++sequence_;
    request.worker = NodeId(kMomentsWorker.value + lane);
    request.generation = Generation(10);
    request.disposition = disposition;
    request.cut.partition = lane;
    request.cut.end = 100 * kMomentsBatch;
    request.cut.batch_size = kMomentsBatch;
    request.run = static_cast<uint32_t>(step);
    request.events = disposition == Disposition::kEmpty ? 0 : kMomentsBatch;
    if (strategy_.stepped()) {
      request.step_lane = StepLane{step, lane, strategy_.total_lanes(), strategy_.lanes};
    }
    for (uint32_t i = 0; i < slices_; ++i) request.slices.push_back({SliceId(i), incarnation_, 0});
    return request;
  }
  // The outcome for the moments.
  SliceOutcome Take(const PushRequest& request) {
    std::vector<uint64_t> elements;
    EXPECT_TRUE(server_->Begin(request, &elements).ok());
    std::vector<SliceReply> replies;
    for (size_t i = 0; i < elements.size(); ++i) {
      std::vector<float> payload(elements[i], 1);
      if (i == 0 && !payload.empty()) payload = Pushed(request.run, request.cut.partition);
      replies.push_back(server_->Apply(request, i, payload));
    }
    const auto finished = server_->Finish(1, request, std::move(replies));
    return finished ? finished->slices[0].outcome : SliceOutcome::kHeld;
  }
  std::vector<uint64_t> Held() { return Bits(server_->Find(kMoments)->values()); }

  StrategyConfig strategy_;
  Incarnation incarnation_ = kMomentsIncarnation;
  uint32_t slices_ = 0;
  std::unique_ptr<Server> server_;
  uint64_t sequence_ = 0;
};

TEST_F(ServerMomentsTest, ABatchIsMergedOnceAndAsItIs) {
  StrategyConfig strategy;
  strategy.staleness_aware = true;
  Make(strategy);
  EXPECT_EQ(server_->Find(kMoments)->slots, 0u) << "no optimizer";
  std::vector<float> expected(6 * kFeatures);
  for (uint32_t run = 0; run < 5; ++run) {
    PushRequest push = Push(run, run % 2);
    push.rate = 3;  // a learning rate, which moments have none of
    EXPECT_EQ(Take(push), SliceOutcome::kApplied);
    optim::MergeMoments(expected, Pushed(run, run % 2));
    EXPECT_EQ(Held(), Bits(expected));
    EXPECT_EQ(Take(push), SliceOutcome::kDuplicate);
    EXPECT_EQ(Held(), Bits(expected)) << "not twice";
  }
  EXPECT_EQ(Take(Push(7, 0, Disposition::kEmpty)), SliceOutcome::kApplied);
  EXPECT_EQ(Take(Push(8, 0, Disposition::kRejected)), SliceOutcome::kApplied);
  EXPECT_EQ(Held(), Bits(expected));
}

TEST_F(ServerMomentsTest, ARestoredSliceGoesOnFromItsMoments) {
  Make({});
  Take(Push(0, 0));
  Slice saved = *server_->Find(kMoments);
  saved.memory = Buffer(saved.memory.size());
  std::ranges::copy(server_->Find(kMoments)->values(), saved.values().begin());
  Take(Push(1, 0));
  const auto expected = Held();

  Make({});
  incarnation_ = Incarnation(8);
  const auto orders = Orders(incarnation_, "checkpoint-000001");
  server_->OnHeartbeatReply(orders);
  server_->OnSliceLoaded(orders.orders[0], std::move(saved));
  EXPECT_EQ(Take(Push(0, 0)), SliceOutcome::kDuplicate);
  EXPECT_EQ(Take(Push(1, 0)), SliceOutcome::kApplied);
  EXPECT_EQ(Held(), expected);
}

TEST_F(ServerMomentsTest, LanesAreMergedInTheirOrderForAnyOrderOfArrival) {
  constexpr uint32_t kLanes = 5, kSteps = 3, kEmptyLane = 2;
  for (const StrategyKind kind : {StrategyKind::kSync, StrategyKind::kSsp, StrategyKind::kAveraging}) {
    std::vector<float> expected(6 * kFeatures);
    for (uint64_t step = 0; step < kSteps; ++step) {
      std::vector<float> sum(expected.size());
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        if (lane != kEmptyLane) optim::MergeMoments(sum, Pushed(step, lane));
      }
      optim::MergeMoments(expected, sum);
    }
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      StrategyConfig strategy = Stepped(kind, kLanes);
      strategy.sum = seed % 2 == 0;
      Make(strategy, kind == StrategyKind::kAveraging ? optim::Kind::kMomentum : optim::Kind::kLamb);
      Rng rng(seed);
      std::vector<std::pair<uint64_t, uint32_t>> order;
      for (uint64_t step = 0; step < kSteps; ++step) {
        const size_t begin = order.size();
        for (uint32_t lane = 0; lane < kLanes; ++lane) order.emplace_back(step, lane);
        for (size_t i = order.size() - 1; i > begin; --i) {
          std::swap(order[i], order[begin + rng.Below(i - begin + 1)]);
        }
      }
      // Where steps may be ahead, lanes of the next arrive early.
      if (strategy.ahead() > 0) std::swap(order[kLanes - 1], order[kLanes + rng.Below(kLanes)]);
      for (const auto& [step, lane] : order) {
        Take(Push(step, lane, lane == kEmptyLane ? Disposition::kEmpty : Disposition::kGradient));
      }
      ASSERT_EQ(server_->Find(kMoments)->version, kSteps);
      EXPECT_EQ(Held(), Bits(expected)) << "seed " << seed;
      // The values of the version before are those before the last step's merge.
      EXPECT_NE(Bits(server_->Values(kMoments, kSteps - 1).values), Held());
    }
  }
}

TEST_F(ServerMomentsTest, ARejectedLaneLeavesTheMomentsOfItsStepOut) {
  Make(Stepped(StrategyKind::kSync, 2));
  Take(Push(0, 0));
  Take(Push(0, 1));
  const auto before = Held();
  Take(Push(1, 0));
  Take(Push(1, 1, Disposition::kRejected));
  EXPECT_EQ(server_->Find(kMoments)->version, 2u);
  EXPECT_EQ(Held(), before);
}

TEST_F(ServerMomentsTest, ALaneThatIsTooLateIsNotMerged) {
  Make(Stepped(StrategyKind::kSync, 2, /*backup=*/1));
  std::vector<float> sum(6 * kFeatures);
  for (const uint32_t lane : {2u, 0u}) Take(Push(0, lane));
  for (const uint32_t lane : {0u, 2u}) optim::MergeMoments(sum, Pushed(0, lane));
  EXPECT_EQ(Held(), Bits(sum));
  EXPECT_EQ(Take(Push(0, 1)), SliceOutcome::kLate);
  EXPECT_EQ(Held(), Bits(sum));
}

}  // namespace
}  // namespace leat::protocol
