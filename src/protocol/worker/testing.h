// A single worker, and messages from the servers A, B and C, played by the test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/worker/worker.h"

namespace leat::protocol {

inline const NodeId kSelf(9), kA(1), kB(2), kC(3);

template <class T>
std::vector<T> All(const WorkerActions& actions) {
  std::vector<T> found;
  for (const WorkerAction& action : actions) {
    if (const auto* a = std::get_if<T>(&action)) found.push_back(*a);
  }
  return found;
}

// Four slices, two on each of the servers A and B.
class WorkerTest : public ::testing::Test {
 protected:
  explicit WorkerTest(const StrategyConfig& strategy = {}) : worker_(MakeConfig(strategy)) {
    worker_.OnJoined(kSelf);
  }

  static WorkerConfig MakeConfig(const StrategyConfig& strategy = {}) {
    WorkerConfig config;
    config.strategy = strategy;
    config.table = {1, {{"v", Shape{4}, {}}}, {{0, 0, 1}, {0, 1, 2}, {0, 2, 3}, {0, 3, 4}}};
    return config;
  }

  static View MakeView(uint64_t generation, std::vector<NodeId> servers = {kA, kA, kB, kB},
                       std::vector<uint64_t> incarnations = {1, 2, 3, 4}) {
    View view;
    view.generation = Generation(generation);
    for (NodeId node : {kA, kB, kC}) {
      if (std::find(servers.begin(), servers.end(), node) != servers.end()) {
        view.members.push_back({node, Role::kServer, 0, "ps-" + ToString(node)});
      }
    }
    view.members.push_back({kSelf, Role::kWorker, 0, ""});
    for (size_t i = 0; i < servers.size(); ++i) {
      view.slices.push_back({servers[i], Incarnation(incarnations[i]), servers[i] != NodeId()});
    }
    return view;
  }

  static Lease MakeLease(uint64_t id, uint32_t batches = 3, std::vector<uint32_t> missing = {}) {
    Lease lease;
    lease.id = id;
    lease.cut.begin = lease.cut.after = {0, id * 1000};
    lease.cut.end = lease.cut.begin.offset + batches * 10;
    lease.cut.batch_size = 10;
    lease.missing = RunSet(batches, missing.empty());
    for (uint32_t b : missing) lease.missing.Add(b);
    return lease;
  }

  WorkerActions Reply(Shared<View> view, std::vector<Lease> leases = {}, std::vector<uint64_t> revoked = {}) {
    WorkerHeartbeatReply reply;
    reply.view = std::move(view);
    reply.leases = std::move(leases);
    reply.revoked = std::move(revoked);
    return worker_.OnHeartbeatReply(now_, reply);
  }

  // The reply of a server that accepts everything.
  static PushReply Ok(const PushRequest& request, uint64_t version = 1) {
    PushReply reply;
    reply.sequence = request.sequence;
    for (const SliceRef& ref : request.slices) {
      const bool pull = request.disposition == Disposition::kPull;
      reply.slices.push_back(
          {ref.slice, pull ? SliceOutcome::kPulled : SliceOutcome::kApplied, true, ref.incarnation, version});
    }
    return reply;
  }
  WorkerActions Answer(const SendPush& push, uint64_t version = 1) {
    return worker_.OnPushReply(now_, push.server, Ok(*push.request, version));
  }
  // Answers all; returns the actions after the last.
  WorkerActions AnswerAll(const WorkerActions& actions, uint64_t version = 1) {
    WorkerActions last;
    for (const SendPush& push : All<SendPush>(actions)) last = Answer(push, version);
    return last;
  }

  // Runs up to the first Compute of a lease of `batches`.
  Compute Started(uint32_t batches = 3) {
    const auto pulls = Reply(MakeView(5), {MakeLease(1, batches)});
    AnswerAll(pulls);
    return All<Compute>(worker_.OnSplitReady(now_, 1)).at(0);
  }

  Time now_{std::chrono::seconds(100)};
  Worker worker_;
};

}  // namespace leat::protocol
