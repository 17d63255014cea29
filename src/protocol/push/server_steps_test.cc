// Stepped strategies on the server: the runs of a step, parked requests, and rejected ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "base/rng.h"
#include "compute/optim/mean.h"
#include "protocol/server/server.h"

namespace leat::protocol {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

const NodeId kStepsWorker(20);
constexpr Incarnation kIncarnation(7);
constexpr Incarnation kNextLife(8);
constexpr uint32_t kStepsBatch = 8;

StrategyConfig Sync(uint32_t lanes, uint32_t backup = 0) {
  StrategyConfig strategy;
  strategy.kind = StrategyKind::kSync;
  strategy.lanes = lanes;
  strategy.backup = backup;
  return strategy;
}

StrategyConfig Ssp(uint32_t lanes, int32_t staleness) {
  StrategyConfig strategy = Sync(lanes);
  strategy.kind = StrategyKind::kSsp;
  strategy.staleness = staleness;
  return strategy;
}

// The gradient of one lane's run: numbers that are rounded by every addition.
std::vector<float> Gradient(uint64_t step, uint32_t lane, uint32_t slice, uint64_t elements) {
  Rng rng(step * 1000003 + lane * 1009 + slice);
  std::vector<float> numbers(elements);
  for (float& x : numbers) x = static_cast<float>(rng.Uniform()) - 0.4f;
  return numbers;
}

// A server and its replies to parked requests.
struct Node {
  NodeId node;
  std::unique_ptr<Server> server;
  std::vector<uint32_t> slices;
  std::map<uint64_t, PushReply> late;  // by ticket
};

class ServerStepsTest : public ::testing::Test {
 protected:
  // Servers with the slices in turn, slice 0 on the first.
  void Make(const StrategyConfig& strategy, uint32_t servers = 1, optim::OptimizerConfig optimizer = Sgd(),
            int64_t elements = 200) {
    nodes_.clear();
    optim::InitSpec five;
    five.kind = optim::InitKind::kConstant;
    five.value = 5;
    config_.strategy = strategy;
    config_.optimizer = optimizer;
    const std::vector<optim::VariableSpec> variables = {{"w", Shape{elements}, five}, {"b", Shape{20}, five}};
    config_.table =
        optim::NeedsWholeVariables(optimizer) ? MakeWholeSlices(variables, 1) : MakeSlices(variables, 1, 1);
    for (uint32_t i = 0; i < servers; ++i) {
      Node node{NodeId(i + 1), std::make_unique<Server>(config_), {}, {}};
      for (uint32_t s = i; s < config_.table.slices.size(); s += servers) node.slices.push_back(s);
      node.server->OnJoined(node.node);
      nodes_.push_back(std::move(node));
    }
    for (Node& node : nodes_) node.server->OnHeartbeatReply(Orders(node));
  }
  static optim::OptimizerConfig Sgd() { return {.kind = optim::Kind::kSgd, .learning_rate = 1}; }

  ServerHeartbeatReply Orders(const Node& node, Incarnation incarnation = kIncarnation) {
    ServerHeartbeatReply reply;
    View& view = reply.view.emplace();
    view.generation = Generation(10);
    for (const Node& n : nodes_) view.members.push_back({n.node, Role::kServer, 0, "there"});
    for (uint32_t i = 0; i < 8; ++i) {
      view.members.push_back({NodeId(kStepsWorker.value + i), Role::kWorker, i, ""});
    }
    reply.start.resize(8);
    for (const uint32_t i : node.slices) reply.orders.push_back({SliceId(i), incarnation, "", "", 0});
    return reply;
  }

  Cut CutOf(uint32_t partition) const {
    Cut cut;
    cut.partition = partition;
    cut.end = 100 * kStepsBatch;
    cut.batch_size = kStepsBatch;
    return cut;
  }
  // Lane l of step t is run t of partition l, pushed by worker l.
  PushRequest Push(const Node& node, uint64_t step, uint32_t lane, uint32_t events = kStepsBatch) {
    const StrategyConfig& strategy = config_.strategy;
    PushRequest request = Pull(node);
    request.worker = NodeId(kStepsWorker.value + lane);
    request.disposition = Disposition::kGradient;
    request.cut = CutOf(lane);
    request.run = static_cast<uint32_t>(step);
    request.events = events;
    request.step_lane = StepLane{step, lane, strategy.total_lanes(), strategy.lanes};
    for (SliceRef& ref : request.slices) ref.version = step;
    return request;
  }
  PushRequest Pull(const Node& node, uint64_t version = 0, bool exact = false) {
    PushRequest request;
    request.sequence = ++sequence_;
    request.worker = kStepsWorker;
    request.generation = Generation(10);
    request.version_wanted = version;
    request.exact = exact;
    for (const uint32_t i : node.slices) request.slices.push_back({SliceId(i), kIncarnation, 0});
    return request;
  }
  PushRequest With(PushRequest request, Disposition disposition) {
    request.disposition = disposition;
    if (disposition == Disposition::kEmpty) request.events = 0;
    return request;
  }

  std::vector<float> PayloadOf(const PushRequest& request, uint32_t slice) const {
    if (request.disposition != Disposition::kGradient) return {};
    return Gradient(request.step_lane->step, request.step_lane->lane, slice,
                    config_.table.slices[slice].elements());
  }
  // The reply, or none if it waits under `ticket`.
  std::optional<PushReply> Offer(Node& node, const PushRequest& request, uint64_t ticket = 1) {
    const auto begun = node.server->Begin(request);
    EXPECT_TRUE(begun.ok()) << begun.ToString();
    if (!begun.ok()) return std::nullopt;
    std::vector<SliceReply> slices;
    for (size_t i = 0; i < request.slices.size(); ++i) {
      slices.push_back(node.server->Apply(request, i, PayloadOf(request, request.slices[i].slice.value)));
    }
    auto reply = node.server->Finish(ticket, request, std::move(slices));
    for (auto& ready : node.server->TakeReady()) node.late[ready.ticket] = std::move(ready.reply);
    return reply;
  }
  PushReply Take(Node& node, const PushRequest& request) {
    auto reply = Offer(node, request);
    EXPECT_TRUE(reply.has_value());
    return reply.value_or(PushReply{});
  }
  void TakeReady(Node& node) {
    for (auto& ready : node.server->TakeReady()) node.late[ready.ticket] = std::move(ready.reply);
  }
  SliceOutcome Outcome(Node& node, const PushRequest& request) {
    const PushReply reply = Take(node, request);
    for (const SliceReply& slice : reply.slices) EXPECT_EQ(slice.outcome, reply.slices[0].outcome);
    return reply.slices.at(0).outcome;
  }
  void TakeStep(Node& node, uint64_t step) {
    for (uint32_t lane = 0; lane < config_.strategy.lanes; ++lane) {
      Take(node, Push(node, step, lane));
    }
  }
  Node& node() { return nodes_[0]; }
  const Slice& At(const Node& node, uint32_t slice = 0) { return *node.server->Find(SliceId(slice)); }
  std::vector<float> ValuesOf(const Node& node, uint32_t slice = 0) {
    const auto values = At(node, slice).values();
    return {values.begin(), values.end()};
  }
  ServerHeartbeat SendHeartbeat(Node& node) { return node.server->MakeHeartbeat(); }

  ServerConfig config_;
  std::vector<Node> nodes_;
  uint64_t sequence_ = 0;
};

// The expected result: the steps one lane after the other over whole slices.
struct Reference {
  Reference(const ServerConfig& config, const Slice& slice) : optimizer(config.optimizer) {
    values.assign(slice.values().begin(), slice.values().end());
    for (uint32_t i = 0; i < slice.slots; ++i) slots.emplace_back(slice.slot(i).begin(), slice.slot(i).end());
  }
  // `events` by lane; 0 if a lane has none.
  void Step(uint64_t step, uint32_t slice, const std::vector<uint32_t>& events, float rate = 1) {
    std::vector<float> sum(values.size());
    bool first = true;
    for (uint32_t lane = 0; lane < events.size(); ++lane) {
      if (events[lane] == 0) continue;
      (std::exchange(first, false) ? optim::SetWeighted : optim::AddWeighted)(
          sum, Gradient(step, lane, slice, sum.size()), static_cast<float>(events[lane]));
    }
    optim::Scale(sum, static_cast<float>(1.0 / std::accumulate(events.begin(), events.end(), 0)));
    const std::vector<std::span<float>> spans(slots.begin(), slots.end());
    optim::Apply(optimizer, values, sum, spans, step + 1, rate);
  }
  optim::OptimizerConfig optimizer;
  std::vector<float> values;
  std::vector<std::vector<float>> slots;
};

TEST_F(ServerStepsTest, AStepIsMadeAtTheRateOfItsLanes) {
  Make(Sync(2), 1, optim::Defaults(optim::Kind::kMomentum));
  Reference expected(config_, At(node(), 0));
  const std::vector<float> rates = {1, 2.5f, 1};
  for (uint64_t step = 0; step < rates.size(); ++step) {
    for (uint32_t lane = 0; lane < 2; ++lane) {
      PushRequest push = Push(node(), step, lane);
      push.rate = rates[step];
      Take(node(), push);
    }
    expected.Step(step, 0, {kStepsBatch, kStepsBatch}, rates[step]);
    EXPECT_EQ(ValuesOf(node()), expected.values) << step;
  }
}

TEST_F(ServerStepsTest, TheMeanIsTakenInLaneOrderForAnyOrderOfArrival) {
  for (const optim::Kind kind : {optim::Kind::kSgd, optim::Kind::kMomentum, optim::Kind::kAdam,
                                 optim::Kind::kRmsprop, optim::Kind::kLamb}) {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      Make(Sync(5), 1, optim::Defaults(kind), 60'000);  // slices are of more than one chunk
      Rng rng(seed);
      std::vector<Reference> expected;
      for (const uint32_t i : node().slices) expected.emplace_back(config_, At(node(), i));
      for (uint64_t step = 0; step < 3; ++step) {
        const std::vector<uint32_t> events = {8, 5, 0, 3, 8};
        // Each slice gets the lanes in a different order, as with interleaved pushes of many connections.
        std::vector<std::pair<uint32_t, uint32_t>> arrivals;
        std::vector<PushRequest> pushes;
        for (uint32_t lane = 0; lane < 5; ++lane) {
          pushes.push_back(Push(node(), step, lane, events[lane]));
          if (events[lane] == 0) pushes.back() = With(pushes.back(), Disposition::kEmpty);
          ASSERT_TRUE(node().server->Begin(pushes.back()).ok());
          for (uint32_t i = 0; i < node().slices.size(); ++i) arrivals.emplace_back(lane, i);
        }
        for (size_t i = arrivals.size() - 1; i > 0; --i) std::swap(arrivals[i], arrivals[rng.Below(i + 1)]);
        for (const auto& [lane, i] : arrivals) {
          node().server->Apply(pushes[lane], i, PayloadOf(pushes[lane], node().slices[i]));
        }
        for (const uint32_t i : node().slices) expected[i].Step(step, i, events);
      }
      for (const uint32_t i : node().slices) {
        ASSERT_EQ(At(node(), i).version, 3u);
        ASSERT_EQ(ValuesOf(node(), i), expected[i].values) << "slice " << i << " of seed " << seed;
        for (uint32_t slot = 0; slot < At(node(), i).slots; ++slot) {
          ASSERT_THAT(At(node(), i).slot(slot), ElementsAreArray(expected[i].slots[slot]));
        }
        EXPECT_EQ(At(node(), i).events, 3u * 24);
        for (uint32_t lane = 0; lane < 5; ++lane) {
          EXPECT_EQ(At(node(), i).ledger.Held(CutOf(lane)).count(), 3u);
        }
      }
    }
  }
}

// Pushes every lane of three steps, with the gradients of a push at once or one by one; returns the contents
// of all slices.
TEST_F(ServerStepsTest, GradientsThatComeTogetherAreSharedOutAndComeToTheSame) {
  constexpr int64_t kElements = 300'000;
  size_t shared_out = 0;
  const auto backwards = [&](size_t count, const std::function<void(size_t)>& part) {
    for (size_t i = count; i-- > 0; ++shared_out) part(i);
  };
  for (const optim::Kind kind : {optim::Kind::kSgd, optim::Kind::kMomentum, optim::Kind::kLamb}) {
    for (const StrategyConfig& strategy : {Sync(3), Sync(2, 1), Ssp(3, 2)}) {
      std::vector<std::vector<float>> outcome[2];
      for (const bool together : {false, true}) {
        config_.run_parts = together ? std::function(backwards) : nullptr;
        Make(strategy, 1, optim::Defaults(kind), kElements);
        shared_out = 0;
        std::vector<std::pair<uint64_t, uint32_t>> order;  // order of steps and lanes
        for (uint64_t step = 0; step < 3; ++step) {
          for (uint32_t lane = 0; lane < strategy.total_lanes(); ++lane) order.emplace_back(step, lane);
        }
        // Its last lane completes two steps.
        if (strategy.ahead() > 0) std::rotate(order.begin() + 2, order.begin() + 3, order.begin() + 6);
        for (const auto& [step, lane] : order) {
          const PushRequest push = Push(node(), step, lane);
          ASSERT_TRUE(node().server->Begin(push).ok());
          std::vector<std::vector<float>> payloads;
          for (const SliceRef& ref : push.slices) payloads.push_back(PayloadOf(push, ref.slice.value));
          std::vector<SliceReply> replies;
          if (together) {
            const std::vector<std::span<const float>> spans(payloads.begin(), payloads.end());
            node().server->ApplyAll(push, spans, &replies);
          } else {
            for (size_t i = 0; i < payloads.size(); ++i)
              replies.push_back(node().server->Apply(push, i, payloads[i]));
          }
          EXPECT_EQ(replies.size(), push.slices.size());
          ASSERT_TRUE(node().server->Finish(1, push, std::move(replies)));
        }
        EXPECT_GE(At(node()).version, 3u);
        EXPECT_EQ(shared_out > 0, together && node().slices.size() > 1);
        for (const uint32_t i : node().slices) outcome[together].push_back(ValuesOf(node(), i));
      }
      EXPECT_EQ(outcome[0], outcome[1]) << static_cast<int>(kind);
    }
  }
  config_.run_parts = nullptr;
}

TEST_F(ServerStepsTest, WhereTheLossIsASumGradientsAreAdded) {
  StrategyConfig strategy = Sync(2);
  strategy.sum = true;
  Make(strategy);
  const auto before = ValuesOf(node());
  TakeStep(node(), 0);
  const size_t n = before.size();
  const auto a = Gradient(0, 0, 0, n), b = Gradient(0, 1, 0, n);
  for (size_t i = 0; i < n; ++i) EXPECT_EQ(ValuesOf(node())[i], before[i] - (a[i] + b[i]));
}

TEST_F(ServerStepsTest, NothingHappensBeforeAllLanesAreIn) {
  Make(Sync(3));
  EXPECT_EQ(Outcome(node(), Push(node(), 0, 2)), SliceOutcome::kHeld);
  EXPECT_EQ(Outcome(node(), Push(node(), 0, 0)), SliceOutcome::kHeld);
  EXPECT_THAT(ValuesOf(node()), Each(5.0f));
  EXPECT_EQ(At(node()).version, 0u);
  EXPECT_TRUE(At(node()).ledger.Held(CutOf(0)).empty());
  EXPECT_EQ(Outcome(node(), Push(node(), 0, 1)), SliceOutcome::kApplied);
  EXPECT_EQ(At(node()).version, 1u);
  EXPECT_EQ(At(node()).events, 24u);
  const ServerHeartbeat heartbeat = SendHeartbeat(node());
  ASSERT_EQ(heartbeat.ledgers.size(), 1u);
  EXPECT_EQ(heartbeat.ledgers[0].version, 1u);
  EXPECT_EQ(heartbeat.ledgers[0].events, 24u);
  EXPECT_EQ(heartbeat.progress.staleness_count, 3u * node().slices.size());
  EXPECT_EQ(heartbeat.progress.staleness_sum, 0u);
}

TEST_F(ServerStepsTest, WhatComesAgainCountsOnce) {
  Make(Sync(2));
  const PushRequest first = Push(node(), 0, 0);
  // Half of it arrives, then all of it from another worker that has taken over.
  ASSERT_TRUE(node().server->Begin(first).ok());
  for (size_t i = 0; i < 5; ++i) {
    node().server->Apply(first, i, PayloadOf(first, first.slices[i].slice.value));
  }
  PushRequest again = Push(node(), 0, 0);
  again.worker = NodeId(kStepsWorker.value + 5);
  EXPECT_EQ(Outcome(node(), again), SliceOutcome::kHeld);
  EXPECT_EQ(Outcome(node(), again), SliceOutcome::kHeld);
  EXPECT_EQ(Outcome(node(), Push(node(), 0, 1)), SliceOutcome::kApplied);
  EXPECT_EQ(Outcome(node(), again), SliceOutcome::kDuplicate);
  EXPECT_EQ(At(node()).version, 1u);
  EXPECT_EQ(At(node()).events, 16u);
  EXPECT_EQ(SendHeartbeat(node()).progress.duplicates, node().slices.size());
}

// An incomplete push leaves the slices of one server a step apart; a retry completes it.
TEST_F(ServerStepsTest, SlicesAStepApartAreMadeEvenByARetry) {
  Make(Sync(2));
  Take(node(), Push(node(), 0, 0));
  const PushRequest second = Push(node(), 0, 1);
  ASSERT_TRUE(node().server->Begin(second).ok());
  for (size_t i = 0; i < 5; ++i) {
    node().server->Apply(second, i, PayloadOf(second, second.slices[i].slice.value));
  }
  EXPECT_EQ(At(node(), 4).version, 1u);
  EXPECT_EQ(At(node(), 5).version, 0u);
  const ServerHeartbeat heartbeat = SendHeartbeat(node());
  ASSERT_EQ(heartbeat.ledgers.size(), 2u);
  EXPECT_EQ(heartbeat.ledgers[0].slices.size(), 5u);
  EXPECT_EQ(heartbeat.ledgers[0].version, 1u);
  EXPECT_EQ(heartbeat.ledgers[1].version, 0u);

  // To compute the run again, a worker needs version 0 of all of them.
  const PushReply values = Take(node(), Pull(node(), 0, true));
  EXPECT_EQ(values.slices[4].version, 0u);
  EXPECT_EQ(values.slices[5].version, 0u);
  EXPECT_THAT(node().server->Values(SliceId(4), 0).values, Each(5.0f));

  const PushReply reply = Take(node(), Push(node(), 0, 1));
  EXPECT_EQ(reply.slices[4].outcome, SliceOutcome::kDuplicate);
  EXPECT_EQ(reply.slices[5].outcome, SliceOutcome::kApplied);
  EXPECT_EQ(SendHeartbeat(node()).ledgers.size(), 1u);
}

TEST_F(ServerStepsTest, RequestsWaitForTheirVersion) {
  Make(Sync(2));
  PushRequest first = Push(node(), 0, 0);
  first.version_wanted = 1;
  first.exact = true;
  EXPECT_FALSE(Offer(node(), first, 11));
  EXPECT_FALSE(Offer(node(), Pull(node(), 1), 12));
  EXPECT_FALSE(Offer(node(), Pull(node(), 2), 13));
  PushRequest silent = Pull(node(), 1);
  silent.want_values = false;
  EXPECT_TRUE(Offer(node(), silent)) << "wants nothing";
  EXPECT_THAT(node().late, IsEmpty());
  PushRequest second = Push(node(), 0, 1);
  second.version_wanted = 1;
  const PushReply reply = Take(node(), second);
  EXPECT_EQ(reply.slices[0].version, 1u);
  EXPECT_TRUE(reply.slices[0].values);
  ASSERT_EQ(node().late.size(), 2u);
  EXPECT_EQ(node().late[11].sequence, first.sequence);
  for (const SliceReply& slice : node().late[11].slices) {
    EXPECT_EQ(slice.outcome, SliceOutcome::kApplied) << "recorded by now";
    EXPECT_EQ(slice.version, 1u);
    EXPECT_TRUE(slice.values);
  }
  EXPECT_EQ(node().late[12].slices[3].outcome, SliceOutcome::kPulled);
  EXPECT_TRUE(node().late[12].slices[3].values);
  TakeStep(node(), 1);
  EXPECT_TRUE(node().late.contains(13));
}

TEST_F(ServerStepsTest, ExpiredRequestsAreAnsweredWithoutValues) {
  Make(Sync(2));
  PushRequest push = Push(node(), 0, 0);
  push.version_wanted = 1;
  EXPECT_FALSE(Offer(node(), push, 11));
  EXPECT_FALSE(Offer(node(), Pull(node(), 1), 12));
  EXPECT_FALSE(Offer(node(), Pull(node(), 1), 13));
  node().server->Expire(11);
  node().server->Expire(99);
  node().server->Forget(12);
  TakeReady(node());
  ASSERT_EQ(node().late.size(), 1u);
  EXPECT_EQ(node().late[11].slices[0].outcome, SliceOutcome::kHeld);
  EXPECT_FALSE(node().late[11].slices[0].values);
  EXPECT_EQ(node().late[11].slices[0].version, 0u);
  Take(node(), Push(node(), 0, 1));
  EXPECT_EQ(node().late.size(), 2u);
  EXPECT_TRUE(node().late.contains(13));
}

TEST_F(ServerStepsTest, WhatIsWaitedForMayGoAway) {
  Make(Sync(2));
  EXPECT_FALSE(Offer(node(), Pull(node(), 1), 11));
  ServerHeartbeatReply orders = Orders(node());
  orders.orders[3].incarnation = kNextLife;
  node().server->OnHeartbeatReply(orders);
  TakeReady(node());
  EXPECT_EQ(node().late.at(11).slices[3].outcome, SliceOutcome::kNotHere);
  EXPECT_EQ(node().late.at(11).slices[2].outcome, SliceOutcome::kPulled);
  for (const SliceReply& slice : node().late.at(11).slices) EXPECT_FALSE(slice.values);

  Make(Sync(2));
  EXPECT_FALSE(Offer(node(), Pull(node(), 1), 12));
  orders = Orders(node());
  View without = *orders.view;
  without.generation = Generation(11);
  std::erase_if(without.members, [](const Member& member) { return member.node == kStepsWorker; });
  orders.view = std::move(without);
  node().server->OnHeartbeatReply(orders);
  TakeReady(node());
  EXPECT_TRUE(node().late.at(12).evicted);
}

TEST_F(ServerStepsTest, ThePreviousVersionIsKeptForRepeatedSteps) {
  Make(Sync(1), 2, optim::Defaults(optim::Kind::kAdam));
  TakeStep(nodes_[0], 0);
  const auto after_one = ValuesOf(nodes_[0]);
  TakeStep(nodes_[0], 1);
  // The other server has not seen step 1: training it requires version 1 of both.
  TakeStep(nodes_[1], 0);
  PushReply reply = Take(nodes_[0], Pull(nodes_[0], 1, true));
  EXPECT_EQ(reply.slices[0].version, 1u);
  EXPECT_TRUE(reply.slices[0].values);
  EXPECT_THAT(nodes_[0].server->Values(SliceId(0), 1).values, ElementsAreArray(after_one));
  EXPECT_THAT(nodes_[0].server->Values(SliceId(0), 2).values, ElementsAreArray(ValuesOf(nodes_[0])));
  EXPECT_NE(after_one, ValuesOf(nodes_[0]));
  EXPECT_EQ(Take(nodes_[1], Pull(nodes_[1], 1, true)).slices[0].version, 1u);
  // Without `exact`: the newest, also if the requested version is gone.
  EXPECT_EQ(Take(nodes_[0], Pull(nodes_[0], 1)).slices[0].version, 2u);
  TakeStep(nodes_[0], 2);
  reply = Take(nodes_[0], Pull(nodes_[0], 1, true));
  EXPECT_EQ(reply.slices[0].version, 3u);
  EXPECT_TRUE(reply.slices[0].values);
}

TEST_F(ServerStepsTest, MemoryThatSomebodyHoldsIsLeftAsItIs) {
  for (const optim::Kind kind : {optim::Kind::kSgd, optim::Kind::kAdam}) {
    Make(Sync(2), 1, optim::Defaults(kind), 60'000);
    Reference expected(config_, At(node()));
    std::vector<std::pair<Server::HeldValues, std::vector<float>>> held;
    for (uint64_t step = 0; step < 8; ++step) {
      TakeStep(node(), step);
      expected.Step(step, 0, {kStepsBatch, kStepsBatch});
      ASSERT_EQ(ValuesOf(node()), expected.values) << step;
      // Values of the newest and the previous version, for some steps.
      for (const uint64_t version : {step, step + 1}) {
        if (step % 3 == 2) break;
        auto values = node().server->Values(SliceId(0), version);
        std::vector<float> copy(values.values.begin(), values.values.end());
        held.emplace_back(std::move(values), std::move(copy));
      }
      for (const auto& [values, copy] : held) ASSERT_THAT(values.values, ElementsAreArray(copy)) << step;
      if (step == 5) held.clear();
    }
    for (uint32_t i = 0; i < At(node()).slots; ++i) {
      EXPECT_THAT(At(node()).slot(i), ElementsAreArray(expected.slots[i]));
    }
  }
}

TEST_F(ServerStepsTest, WhatContradictsTheOpenStepIsAConflict) {
  Make(Sync(3));
  Take(node(), Push(node(), 0, 0));
  PushRequest other = Push(node(), 0, 0);
  other.run = 1;
  EXPECT_EQ(Outcome(node(), other), SliceOutcome::kConflict) << "another run in a lane that is in";
  other = Push(node(), 0, 1);
  other.cut = CutOf(0);
  EXPECT_EQ(Outcome(node(), other), SliceOutcome::kConflict) << "the same run in two lanes";
  other.run = 1;
  other.cut.end -= kStepsBatch;
  EXPECT_EQ(Outcome(node(), other), SliceOutcome::kConflict) << "a cut that overlaps another lane's";
  other = Push(node(), 0, 1);
  other.step_lane->width = other.step_lane->needed = 2;
  EXPECT_EQ(Outcome(node(), other), SliceOutcome::kConflict) << "another width";
  EXPECT_EQ(Outcome(node(), Push(node(), 1, 1)), SliceOutcome::kConflict) << "a step too far";
  EXPECT_EQ(SendHeartbeat(node()).progress.conflicts, 5 * node().slices.size());
  EXPECT_EQ(Outcome(node(), Push(node(), 0, 1)), SliceOutcome::kHeld);
  EXPECT_EQ(Outcome(node(), Push(node(), 0, 2)), SliceOutcome::kApplied);
  other = Push(node(), 1, 0);
  other.run = 0;
  EXPECT_EQ(Outcome(node(), other), SliceOutcome::kDuplicate) << "recorded, for any claimed step";
}

TEST_F(ServerStepsTest, TailsAreNarrower) {
  Make(Sync(3));
  PushRequest push = Push(node(), 0, 0);
  push.step_lane->width = push.step_lane->needed = 1;
  EXPECT_EQ(Outcome(node(), push), SliceOutcome::kApplied);
  EXPECT_EQ(At(node()).version, 1u);
}

TEST_F(ServerStepsTest, EarlyRunsAreKeptUntilTheirStepComes) {
  Make(Ssp(2, 2));
  Reference expected(config_, At(node()));
  EXPECT_EQ(Outcome(node(), Push(node(), 0, 1)), SliceOutcome::kHeld);
  EXPECT_EQ(Outcome(node(), Push(node(), 1, 1)), SliceOutcome::kHeld);
  PushRequest ahead = Push(node(), 2, 1);
  for (SliceRef& ref : ahead.slices) ref.version = 0;
  EXPECT_EQ(Outcome(node(), ahead), SliceOutcome::kHeld);
  EXPECT_EQ(Outcome(node(), Push(node(), 3, 1)), SliceOutcome::kConflict);
  ahead = Push(node(), 2, 0);
  for (SliceRef& ref : ahead.slices) ref.version = 1;
  EXPECT_EQ(Outcome(node(), ahead), SliceOutcome::kHeld);
  EXPECT_EQ(Outcome(node(), Push(node(), 1, 0)), SliceOutcome::kHeld);
  EXPECT_EQ(At(node()).version, 0u);
  EXPECT_EQ(Outcome(node(), Push(node(), 0, 0)), SliceOutcome::kApplied);
  EXPECT_EQ(At(node()).version, 3u) << "those that had waited for it are complete too";
  for (uint64_t step = 0; step < 3; ++step) expected.Step(step, 0, {kStepsBatch, kStepsBatch});
  EXPECT_EQ(ValuesOf(node()), expected.values);
  const ServerProgress progress = SendHeartbeat(node()).progress;
  const uint64_t slices = node().slices.size();
  EXPECT_EQ(progress.staleness_count, 6 * slices);
  EXPECT_EQ(progress.staleness_sum, 3 * slices);
  EXPECT_EQ(progress.staleness[2], slices);
}

// With staleness 0 the code, and so the bits, are the same.
TEST_F(ServerStepsTest, SspOfZeroIsSync) {
  std::vector<float> values[2];
  for (const bool ssp : {false, true}) {
    Make(ssp ? Ssp(3, 0) : Sync(3));
    for (uint64_t step = 0; step < 4; ++step) TakeStep(node(), step);
    values[ssp] = ValuesOf(node());
  }
  EXPECT_EQ(values[0], values[1]);
}

TEST_F(ServerStepsTest, TheFirstToComeCountAndBothServersKnowWhich) {
  Make(Sync(2, 2), 2);
  Node& decider = nodes_[0];
  Node& other = nodes_[1];
  Reference expected(config_, At(decider)), expected_other(config_, At(other, 1));
  EXPECT_THAT(Take(decider, Push(decider, 0, 3)).counted, IsEmpty());
  // A worker that has sent half a push does not count yet.
  const PushRequest half = Push(decider, 0, 0);
  ASSERT_TRUE(decider.server->Begin(half).ok());
  for (size_t i = 0; i < 3; ++i) {
    decider.server->Apply(half, i, PayloadOf(half, half.slices[i].slice.value));
  }
  EXPECT_EQ(At(decider).version, 0u);
  PushRequest part = half;
  part.slices.resize(4);
  EXPECT_THAT(Take(decider, part).counted, IsEmpty()) << "nor one that sent all of some slices";
  for (const uint32_t lane : {0u, 1u, 2u})
    EXPECT_EQ(Outcome(other, Push(other, 0, lane)), SliceOutcome::kHeld);

  const PushReply chosen = Take(decider, Push(decider, 0, 1));
  EXPECT_THAT(chosen.counted, ElementsAre(0b1010u));
  EXPECT_EQ(chosen.slices[0].outcome, SliceOutcome::kApplied);
  EXPECT_EQ(At(decider).version, 1u);
  expected.Step(0, 0, {0, kStepsBatch, 0, kStepsBatch});
  EXPECT_EQ(ValuesOf(decider), expected.values);
  EXPECT_TRUE(At(decider).ledger.Held(CutOf(0)).empty()) << "its events are for another step";
  EXPECT_EQ(At(decider).ledger.Held(CutOf(3)).count(), 1u);

  // Late, and the reply announces the lanes that count.
  const PushReply late = Take(decider, Push(decider, 0, 2));
  EXPECT_EQ(late.slices[0].outcome, SliceOutcome::kLate);
  EXPECT_THAT(late.counted, ElementsAre(0b1010u));
  EXPECT_EQ(Outcome(decider, Push(decider, 0, 3)), SliceOutcome::kDuplicate);

  // The other server is told, waits for what it lacks, and computes the same.
  PushRequest pull = Pull(other, 1, true);
  pull.step_lane = Push(other, 0, 1).step_lane;
  pull.counted = chosen.counted;
  EXPECT_FALSE(Offer(other, pull, 11));
  EXPECT_EQ(At(other, 1).version, 0u);
  PushRequest lie = Push(other, 0, 3);
  lie.counted = {0b0011};
  EXPECT_EQ(other.server->Begin(lie).code(), Code::kInvalidArgument);
  const PushReply last = Take(other, Push(other, 0, 3));
  EXPECT_THAT(last.counted, IsEmpty()) << "that is the decider's to say";
  EXPECT_EQ(last.slices[0].outcome, SliceOutcome::kApplied);
  EXPECT_EQ(other.late.at(11).slices[0].version, 1u);
  expected_other.Step(0, 1, {0, kStepsBatch, 0, kStepsBatch});
  EXPECT_EQ(ValuesOf(other, 1), expected_other.values);
  EXPECT_TRUE(At(other, 1).ledger.Held(CutOf(0)).empty());
  EXPECT_EQ(Outcome(other, Push(other, 0, 0)), SliceOutcome::kLate);

  // The late run in a later step.
  PushRequest again = Push(decider, 1, 0);
  again.run = 0;
  EXPECT_EQ(Outcome(decider, again), SliceOutcome::kHeld);
  EXPECT_EQ(Outcome(decider, Push(decider, 1, 1)), SliceOutcome::kApplied);
  EXPECT_EQ(At(decider).ledger.Held(CutOf(0)).count(), 1u);
}

TEST_F(ServerStepsTest, AParkedPushThatDoesNotCountIsReportedAsLate) {
  Make(Sync(2, 1), 2);
  Node& other = nodes_[1];
  PushRequest push = Push(other, 0, 0);
  push.version_wanted = 1;
  EXPECT_FALSE(Offer(other, push, 11));
  Take(other, Push(other, 0, 1));
  PushRequest last = Push(other, 0, 2);
  last.counted = {0b110};
  EXPECT_EQ(Outcome(other, last), SliceOutcome::kApplied);
  EXPECT_EQ(other.late.at(11).slices[0].outcome, SliceOutcome::kLate);
  EXPECT_TRUE(other.late.at(11).slices[0].values);
}

// Decisions made before a rollback do not count after it.
TEST_F(ServerStepsTest, ChoicesOfAFormerIncarnationAreIgnored) {
  Make(Sync(2, 1), 2);
  Node& other = nodes_[1];
  Take(other, Push(other, 0, 0));
  PushRequest stale = Push(other, 0, 1);
  stale.counted = {0b011};
  other.server->OnHeartbeatReply(Orders(other, kNextLife));
  EXPECT_EQ(Outcome(other, stale), SliceOutcome::kNotHere);
  for (const uint32_t lane : {0u, 1u, 2u}) {
    PushRequest push = Push(other, 0, lane);
    for (SliceRef& ref : push.slices) ref.incarnation = kNextLife;
    if (lane == 2) push.counted = {0b101};
    EXPECT_EQ(Outcome(other, push), lane == 2 ? SliceOutcome::kApplied : SliceOutcome::kHeld);
  }
  EXPECT_TRUE(At(other, 1).ledger.Held(CutOf(1)).empty());
}

TEST_F(ServerStepsTest, AStepWithALaneThatIsNotFiniteIsSkippedEverywhere) {
  Make(Sync(3), 2);
  for (Node& node : nodes_) {
    Take(node, Push(node, 0, 2));
    Take(node, With(Push(node, 0, 1), Disposition::kRejected));
    EXPECT_EQ(Outcome(node, Push(node, 0, 0)), SliceOutcome::kApplied) << "recorded, like an empty one";
    const uint32_t slice = node.slices[0];
    EXPECT_EQ(At(node, slice).version, 1u);
    EXPECT_EQ(At(node, slice).events, 0u);
    EXPECT_THAT(ValuesOf(node, slice), Each(5.0f));
    for (const uint32_t lane : {0u, 1u, 2u}) {
      EXPECT_EQ(At(node, slice).ledger.Held(CutOf(lane)).count(), 1u);
    }
    ServerHeartbeat heartbeat = SendHeartbeat(node);
    EXPECT_EQ(heartbeat.progress.skipped, 1u);
    EXPECT_EQ(heartbeat.progress.staleness_count, 0u);
    EXPECT_EQ(heartbeat.consecutive_rejected, 1u);
    EXPECT_EQ(heartbeat.rejected, (RejectedRun{NodeId(kStepsWorker.value + 1), CutOf(1), 0}));
    // The values of both versions are the same, and stay so.
    EXPECT_THAT(node.server->Values(SliceId(slice), 0).values, Each(5.0f));
    for (const uint32_t lane : {0u, 1u}) Take(node, Push(node, 1, lane));
    Take(node, With(Push(node, 1, 2), Disposition::kRejected));
    EXPECT_EQ(SendHeartbeat(node).consecutive_rejected, 2u);
    TakeStep(node, 2);
    heartbeat = SendHeartbeat(node);
    EXPECT_EQ(heartbeat.consecutive_rejected, 0u);
    EXPECT_EQ(heartbeat.progress.skipped, 2u);
    EXPECT_THAT(node.server->Values(SliceId(slice), 2).values, Each(5.0f));
    Reference expected(config_, At(node, slice));
    std::ranges::fill(expected.values, 5.0f);
    expected.Step(2, slice, {kStepsBatch, kStepsBatch, kStepsBatch});
    EXPECT_EQ(ValuesOf(node, slice), expected.values);
  }
}

TEST_F(ServerStepsTest, AStepOfEmptyRunsMovesNothing) {
  Make(Sync(2), 1, optim::Defaults(optim::Kind::kAdam));
  TakeStep(node(), 0);
  const auto values = ValuesOf(node());
  for (const uint32_t lane : {0u, 1u}) Take(node(), With(Push(node(), 1, lane), Disposition::kEmpty));
  EXPECT_EQ(At(node()).version, 2u);
  EXPECT_EQ(ValuesOf(node()), values);
  EXPECT_EQ(SendHeartbeat(node()).progress.skipped, 0u);
}

TEST_F(ServerStepsTest, SavesEachSliceAtTheVersionThatIsOrdered) {
  Make(Sync(2), 1, optim::Defaults(optim::Kind::kMomentum));
  TakeStep(node(), 0);
  ServerHeartbeatReply reply = Orders(node());
  reply.checkpoint = CheckpointOrder{4, "checkpoint-4", 2};
  EXPECT_THAT(node().server->OnHeartbeatReply(reply), IsEmpty());
  SendHeartbeat(node());
  Take(node(), Push(node(), 1, 0));
  // Some slices reach the version, and pass it before the others reach it.
  const PushRequest half = Push(node(), 1, 1);
  ASSERT_TRUE(node().server->Begin(half).ok());
  for (size_t i = 0; i < 5; ++i) {
    node().server->Apply(half, i, PayloadOf(half, half.slices[i].slice.value));
  }
  const auto at_two = ValuesOf(node());
  const std::vector<float> slot_at_two(At(node()).slot(0).begin(), At(node()).slot(0).end());
  for (const uint32_t lane : {0u, 1u}) {
    const PushRequest next = Push(node(), 2, lane);
    ASSERT_TRUE(node().server->Begin(next).ok());
    for (size_t i = 0; i < 5; ++i) {
      node().server->Apply(next, i, PayloadOf(next, next.slices[i].slice.value));
    }
  }
  EXPECT_EQ(At(node()).version, 3u);
  EXPECT_FALSE(node().server->HeartbeatUrgent());
  EXPECT_THAT(node().server->OnHeartbeatReply(reply), IsEmpty());
  Take(node(), half);
  EXPECT_TRUE(node().server->HeartbeatUrgent());
  auto actions = node().server->OnHeartbeatReply(reply);
  ASSERT_EQ(actions.size(), 1u);
  const auto save = std::get<SaveShard>(actions[0]);
  EXPECT_EQ(save.order, *reply.checkpoint);
  ASSERT_EQ(save.slices.size(), node().slices.size());
  TakeStep(node(), 2);
  TakeStep(node(), 3);
  for (const auto& slice : save.slices) {
    EXPECT_EQ(slice->version, 2u);
    EXPECT_EQ(slice->events, 32u);
    EXPECT_EQ(slice->ledger.Held(CutOf(0)).count(), 2u);
  }
  EXPECT_THAT(save.slices[0]->values(), ElementsAreArray(at_two));
  EXPECT_THAT(save.slices[0]->slot(0), ElementsAreArray(slot_at_two));
  EXPECT_THAT(node().server->OnHeartbeatReply(reply), IsEmpty()) << "once";
  ShardReport report;
  report.checkpoint = 4;
  node().server->OnShardSaved(report);
  ASSERT_TRUE(SendHeartbeat(node()).shard);
  EXPECT_TRUE(SendHeartbeat(node()).shard->status.ok());
  EXPECT_EQ(SendHeartbeat(node()).shard->slices.size(), node().slices.size());

  // Already past it: the shard cannot be saved.
  reply.checkpoint = CheckpointOrder{5, "checkpoint-5", 3};
  EXPECT_THAT(node().server->OnHeartbeatReply(reply), IsEmpty());
  EXPECT_TRUE(node().server->HeartbeatUrgent());
  ASSERT_TRUE(SendHeartbeat(node()).shard);
  EXPECT_EQ(SendHeartbeat(node()).shard->checkpoint, 5u);
  EXPECT_EQ(SendHeartbeat(node()).shard->status.code(), Code::kFailedPrecondition);

  // Withdrawn, and ordered again for another step.
  reply.checkpoint = CheckpointOrder{6, "checkpoint-6", 5};
  EXPECT_THAT(node().server->OnHeartbeatReply(reply), IsEmpty());
  reply.checkpoint.reset();
  node().server->OnHeartbeatReply(reply);
  TakeStep(node(), 4);
  reply.checkpoint = CheckpointOrder{7, "checkpoint-7", 6};
  EXPECT_THAT(node().server->OnHeartbeatReply(reply), IsEmpty());
  TakeStep(node(), 5);
  actions = node().server->OnHeartbeatReply(reply);
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(std::get<SaveShard>(actions[0]).slices[0]->version, 6u);
}

// All slices are restored from a checkpoint; repeating the steps gives the same bits.
TEST_F(ServerStepsTest, RolledBackItComesToTheSame) {
  Make(Sync(2), 1, optim::Defaults(optim::Kind::kAdam));
  TakeStep(node(), 0);
  ServerHeartbeatReply reply = Orders(node());
  reply.checkpoint = CheckpointOrder{1, "checkpoint-1", 1};
  const auto save = std::get<SaveShard>(node().server->OnHeartbeatReply(reply).at(0));
  TakeStep(node(), 1);
  Take(node(), Push(node(), 2, 1));
  const auto values = ValuesOf(node());
  reply = Orders(node(), kNextLife);
  for (auto& order : reply.orders) order.directory = "checkpoint-1";
  const auto load = std::get<LoadSlices>(node().server->OnHeartbeatReply(reply).at(0));
  for (size_t i = 0; i < load.orders.size(); ++i) {
    Slice loaded = *save.slices[i];
    loaded.memory = Buffer(loaded.memory.size());
    std::ranges::copy(save.slices[i]->memory.bytes(), loaded.memory.bytes().begin());
    node().server->OnSliceLoaded(load.orders[i], std::move(loaded));
  }
  EXPECT_EQ(Outcome(node(), Push(node(), 1, 0)), SliceOutcome::kNotHere);
  for (const uint32_t lane : {1u, 0u}) {
    PushRequest push = Push(node(), 1, lane);
    for (SliceRef& ref : push.slices) ref.incarnation = kNextLife;
    Take(node(), push);
  }
  EXPECT_EQ(At(node()).version, 2u);
  EXPECT_EQ(ValuesOf(node()), values);
}

TEST_F(ServerStepsTest, TakesAnyNumberOfLanesIfTheyFollowTheWorkers) {
  StrategyConfig strategy = Sync(2);
  strategy.auto_lanes = true;
  Make(strategy);
  const auto taken = [&](uint32_t width, uint32_t needed) {
    PushRequest push = Push(node(), 0, 0);
    push.step_lane->width = width;
    push.step_lane->needed = needed;
    return node().server->Begin(push).ok();
  };
  for (const uint32_t width : {1u, 2u, 5u, StepLane::kMaxWidth}) EXPECT_TRUE(taken(width, width)) << width;
  EXPECT_FALSE(taken(0, 0));
  EXPECT_FALSE(taken(5, 4)) << "there are no backups";
  EXPECT_FALSE(taken(5, 6));
  EXPECT_FALSE(taken(StepLane::kMaxWidth + 1, StepLane::kMaxWidth + 1));
  strategy.backup = 1;
  Make(strategy);
  EXPECT_TRUE(taken(5, 4));
  EXPECT_TRUE(taken(1, 1));
  EXPECT_FALSE(taken(5, 3));
}

TEST_F(ServerStepsTest, RefusesTurnsThatContradictThemselves) {
  Make(Sync(2, 2));
  const auto refused = [&](auto change) {
    PushRequest push = Push(node(), 0, 1);
    change(&push);
    return node().server->Begin(push).code() == Code::kInvalidArgument;
  };
  EXPECT_FALSE(refused([](PushRequest*) {}));
  EXPECT_TRUE(refused([](PushRequest* p) { p->step_lane.reset(); }));
  EXPECT_TRUE(refused([](PushRequest* p) { p->step_lane->lane = 4; }));
  EXPECT_TRUE(refused([](PushRequest* p) { p->step_lane->lane = UINT32_MAX; }));
  EXPECT_TRUE(refused([](PushRequest* p) { p->step_lane->width = 5; }));
  EXPECT_TRUE(refused([](PushRequest* p) { p->step_lane->width = 0; }));
  EXPECT_TRUE(refused([](PushRequest* p) { p->step_lane->width = p->step_lane->needed = 3; }));
  EXPECT_TRUE(refused([](PushRequest* p) { p->step_lane->needed = 1; }));
  EXPECT_TRUE(refused([](PushRequest* p) { p->step_lane->needed = 0; }));
  EXPECT_TRUE(refused([](PushRequest* p) { p->counted = {0b111}; }));
  EXPECT_TRUE(refused([](PushRequest* p) { p->counted = {0b10001}; }));
  EXPECT_TRUE(refused([](PushRequest* p) { p->counted = {0b11, 0}; }));
  EXPECT_TRUE(refused([](PushRequest* p) { p->counted = {0b11}; })) << "not the decided lanes";
  EXPECT_TRUE(refused([](PushRequest* p) {
    p->disposition = Disposition::kPull;
    p->step_lane.reset();
    p->counted = {0b11};
  }));
  // A server that is told which lanes count.
  Make(Sync(2, 2), 2);
  const auto told = [&](uint64_t counted) {
    PushRequest push = Push(nodes_[1], 0, 1);
    push.counted = {counted};
    return nodes_[1].server->Begin(push).ok();
  };
  EXPECT_FALSE(told(0b10001));
  EXPECT_TRUE(told(0b1001));
  EXPECT_FALSE(told(0b0101)) << "not the lanes announced before";
  Make(Sync(2));
  EXPECT_TRUE(refused([](PushRequest* p) { p->counted = {0b11}; })) << "where all count";
  Make({});
  EXPECT_FALSE(refused([](PushRequest* p) { p->step_lane.reset(); }));
  EXPECT_TRUE(refused([](PushRequest*) {})) << "a step, where there are none";
  EXPECT_TRUE(refused([](PushRequest* p) {
    p->step_lane.reset();
    p->version_wanted = 1;
  }));
}

TEST_F(ServerStepsTest, SurvivesRandomRequests) {
  for (const StrategyConfig& strategy : {Sync(3), Sync(2, 2), Ssp(3, 2)}) {
    Make(strategy, 2);
    Rng rng(1);
    for (int round = 0; round < 20000; ++round) {
      Node& node = nodes_[rng.Below(2)];
      const auto some = [&](uint64_t likely) { return rng.Chance(0.9) ? rng.Below(likely + 1) : rng(); };
      const auto version = node.server->Find(SliceId(node.slices[0]))->version;
      PushRequest push = Push(node, version + rng.Below(4) - rng.Below(2) % (version + 1),
                              static_cast<uint32_t>(rng.Below(strategy.total_lanes())));
      push.run = static_cast<uint32_t>(push.run % 100);
      push.disposition = static_cast<Disposition>(rng.Below(4));
      if (push.disposition == Disposition::kEmpty) push.events = 0;
      if (rng.Chance(0.2)) push.run = static_cast<uint32_t>(some(99));
      if (rng.Chance(0.1)) push.step_lane->step = some(version + 3);
      if (rng.Chance(0.1)) push.step_lane->width = static_cast<uint32_t>(some(4));
      if (rng.Chance(0.1)) push.cut.end = kStepsBatch * (1 + some(99));
      if (rng.Chance(0.1)) push.step_lane->lane = static_cast<uint32_t>(some(4));
      if (rng.Chance(0.2)) push.counted = {some(15)};
      if (rng.Chance(0.3)) push.version_wanted = some(version + 2);
      if (rng.Chance(0.1)) push.slices.resize(rng.Below(push.slices.size() + 1));
      if (node.server->Begin(push).ok()) {
        std::vector<SliceReply> slices;
        const size_t stop = rng.Chance(0.1) ? rng.Below(push.slices.size() + 1) : push.slices.size();
        for (size_t i = 0; i < stop; ++i) {
          slices.push_back(node.server->Apply(push, i, PayloadOf(push, push.slices[i].slice.value)));
        }
        if (stop == push.slices.size()) {
          node.server->Finish(static_cast<uint64_t>(round), push, std::move(slices));
        }
      }
      for (const auto& ready : node.server->TakeReady()) {
        for (const SliceReply& slice : ready.reply.slices) {
          if (slice.values) node.server->Values(slice.slice, slice.version);
        }
      }
      if (rng.Chance(0.1)) node.server->Expire(static_cast<uint64_t>(round) - rng.Below(50));
      if (rng.Chance(0.01)) SendHeartbeat(node);
      if (rng.Chance(0.001)) node.server->OnHeartbeatReply(Orders(node, Incarnation(rng.Below(3) + 6)));
      if (rng.Chance(0.003)) node.server->OnHeartbeatReply(Orders(node));
    }
  }
}

}  // namespace
}  // namespace leat::protocol
