// Helpers for tests of this folder: two servers, whose coordinator and network are played by the test.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "protocol/server/server.h"

namespace leat::protocol::testing {

inline const NodeId kWorker(9);
inline const Incarnation kIncarnation(7);
inline constexpr uint32_t kBatch = 4;

class TwoServersTest : public ::testing::Test {
 protected:
  struct Node {
    NodeId node;
    std::unique_ptr<Server> server;
    ServerHeartbeatReply reply;          // the coordinator's reply, from now on
    std::vector<MoveAction> actions;     // actions of the last input
    std::vector<Forward> forwards;       // undelivered forwards
    std::map<uint64_t, PushReply> late;  // by ticket
  };

  // All slices are on a_.
  void MakeServers(const StrategyConfig& strategy) {
    optim::InitSpec five;
    five.kind = optim::InitKind::kConstant;
    five.value = 5;
    config_.table = MakeSlices({{"w", Shape{200}, five}}, 1, 1);
    config_.optimizer = {.kind = optim::Kind::kMomentum, .learning_rate = 1};
    config_.strategy = strategy;
    for (Node* node : {&a_, &b_}) {
      *node = {};
      node->node = NodeId(node == &a_ ? 1 : 2);
      node->server = std::make_unique<Server>(config_);
      node->server->OnJoined(node->node);
      View& view = node->reply.view.emplace();
      view.generation = Generation(10);
      view.members = {{NodeId(1), Role::kServer, 0, "a"}, {NodeId(2), Role::kServer, 1, "b"}};
      for (uint64_t i = 0; i < 4; ++i)
        view.members.push_back({NodeId(kWorker.value + i), Role::kWorker, 0, ""});
      node->reply.start.resize(4);
    }
    for (uint32_t i = 0; i < config_.table.slices.size(); ++i)
      a_.reply.orders.push_back({SliceId(i), kIncarnation, "", "", 0});
    Hear(a_);
    Hear(b_);
  }

  void Collect(Node& node) {
    for (ForwardAction& action : node.server->TakeForwards()) {
      if (auto* forward = std::get_if<Forward>(&action)) node.forwards.push_back(std::move(*forward));
    }
    node.actions = node.server->TakeMoveActions();
    for (auto& ready : node.server->TakeReady()) node.late[ready.ticket] = std::move(ready.reply);
  }
  // Makes a heartbeat and takes its reply.
  ServerHeartbeat Hear(Node& node) {
    ServerHeartbeat heartbeat = node.server->MakeHeartbeat();
    node.reply.report = heartbeat.report;
    node.reply.part = heartbeat.part;
    node.server->OnHeartbeatReply(node.reply);
    Collect(node);
    return heartbeat;
  }

  PushRequest Push(uint32_t run, std::vector<uint32_t> slices) {
    PushRequest request;
    request.sequence = ++sequence_;
    request.worker = kWorker;
    request.generation = Generation(10);
    request.disposition = Disposition::kGradient;
    request.cut.end = 100 * kBatch;
    request.cut.batch_size = kBatch;
    request.run = run;
    request.events = kBatch;
    for (uint32_t slice : slices) request.slices.push_back({SliceId(slice), kIncarnation, 0});
    return request;
  }
  // Lane l of step t is run t of partition l, pushed by worker l.
  PushRequest Lane(uint64_t step, uint32_t lane, std::vector<uint32_t> slices) {
    PushRequest request = Push(static_cast<uint32_t>(step), std::move(slices));
    request.worker = NodeId(kWorker.value + lane);
    request.cut.partition = lane;
    request.step_lane = StepLane{step, lane, config_.strategy.total_lanes(), config_.strategy.lanes};
    request.want_values = false;
    return request;
  }
  static std::vector<SliceOutcome> Outcomes(const std::optional<PushReply>& reply) {
    std::vector<SliceOutcome> outcomes;
    if (!reply) return outcomes;
    for (const SliceReply& slice : reply->slices) outcomes.push_back(slice.outcome);
    return outcomes;
  }
  std::vector<SliceOutcome> Late(Node& node) {
    std::vector<SliceOutcome> outcomes;
    for (const auto& [ticket, reply] : std::exchange(node.late, {})) {
      for (const SliceOutcome outcome : Outcomes(reply)) outcomes.push_back(outcome);
    }
    return outcomes;
  }
  static std::vector<float> Memory(const Slice& slice) {
    const auto* floats = reinterpret_cast<const float*>(slice.memory.data());
    return {floats, floats + slice.elements * (1 + slice.slots)};
  }

  ServerConfig config_;
  Node a_, b_;
  uint64_t sequence_ = 0;
};

}  // namespace leat::protocol::testing
