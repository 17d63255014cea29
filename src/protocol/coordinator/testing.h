// A coordinator whose surroundings are played by the test.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include "protocol/coordinator/coordinator.h"
#include "protocol/slices/slice_map.h"

namespace leat::protocol {

using std::chrono::milliseconds;
using std::chrono::seconds;

using Phase = CoordinatorStatus::Phase;

template <class T>
std::vector<T> All(const CoordinatorActions& actions) {
  std::vector<T> found;
  for (const CoordinatorAction& action : actions) {
    if (const auto* a = std::get_if<T>(&action)) found.push_back(*a);
  }
  return found;
}

// Keeps what a shell keeps: the actions of the last input, and the journal.
class CoordinatorTest : public ::testing::Test {
 protected:
  CoordinatorTest() { Start({}); }

  static CoordinatorConfig MakeConfig() {
    CoordinatorConfig config;
    config.table = MakeSlices({{"v", Shape{12 * 16}, {}}}, 1, 1);
    config.placement = Placement::kPartitioned;
    config.servers = 2;
    config.cuts = {.hash = 1, .batch_size = 10, .split_batches = 2, .shuffle_seed = 0, .epochs = 1};
    config.partitions = {0, 1};
    config.job = "the job";
    config.heartbeat_interval = milliseconds(100);
    config.heartbeat_timeout = seconds(5);
    config.open_steps = 0;
    return config;
  }

  void Start(RecoveredState restored) {
    coordinator_ = std::make_unique<Coordinator>(config_, std::move(restored));
  }

  void Take(CoordinatorActions actions) {
    actions_ = std::move(actions);
    for (const AppendJournal& journal : All<AppendJournal>(actions_)) journal_.push_back(journal.record);
    for (const PrepareCheckpoint& prepare : All<PrepareCheckpoint>(actions_)) prepared_ = prepare.id;
  }
  ControlReply Call(const ControlRequest& request) {
    const uint64_t call = ++last_call_;
    Take(coordinator_->OnRequest(now_, call, request));
    for (const Reply& reply : All<Reply>(actions_)) {
      if (reply.call == call) return reply.reply;
    }
    return Refusal{Status(Code::kUnavailable, "no answer yet")};
  }
  JoinReply Join(Role role, const std::string& address = "") {
    JoinRequest request;
    request.role = role;
    request.address = address;
    return std::get<JoinReply>(Call(request));
  }
  NodeId JoinServer(const std::string& address) { return Join(Role::kServer, address).node; }
  // A worker that is ready to take leases.
  NodeId JoinWorker() {
    const NodeId node = Join(Role::kWorker).node;
    SendHeartbeat(node);
    return node;
  }

  WorkerHeartbeatReply SendHeartbeat(NodeId worker, uint32_t wanted = 0, std::vector<uint64_t> held = {},
                                     std::vector<uint64_t> released = {}) {
    WorkerHeartbeat heartbeat;
    heartbeat.node = worker;
    heartbeat.term = config_.term;
    heartbeat.leases_wanted = wanted;
    heartbeat.held = std::move(held);
    heartbeat.released = std::move(released);
    return std::get<WorkerHeartbeatReply>(Call(heartbeat));
  }

  // A heartbeat of a server that executes its orders at once; all its slices have `ledger_`.
  ServerHeartbeatReply SendServerHeartbeat(NodeId server, std::optional<ShardReport> shard = {}) {
    ServerHeartbeat heartbeat;
    heartbeat.node = server;
    heartbeat.term = config_.term;
    heartbeat.generation = generations_[server];
    LedgerReport report{{}, 0, ledger_.partitions(), version_};
    for (const SliceOrder& order : orders_[server]) report.slices.push_back({order.slice, order.incarnation});
    if (!report.slices.empty()) heartbeat.ledgers.push_back(report);
    heartbeat.shard = std::move(shard);
    heartbeat.moves = move_reports_[server];
    heartbeat.traffic = traffic_[server];
    heartbeat.leaving = leaving_.contains(server);
    const auto reply = std::get<ServerHeartbeatReply>(Call(heartbeat));
    orders_[server] = reply.orders;
    if (reply.view) generations_[server] = reply.view->generation;
    return reply;
  }
  ShardReport Saved(NodeId server, const CheckpointOrder& order) {
    ShardReport report;
    report.checkpoint = order.id;
    report.file = "shard-" + ToString(server);
    for (const SliceOrder& o : orders_[server]) report.slices.push_back({o.slice, o.incarnation});
    return report;
  }

  void Stream(uint64_t end0, uint64_t end1, bool sealed = false) {
    Take(coordinator_->OnStream(now_, {{0, 0, end0, sealed}, {1, 1000, end1, sealed}}));
  }

  // Two servers with live slices, one worker, and a stream.
  void Run(uint64_t end0 = 100, uint64_t end1 = 1000, bool sealed = false) {
    Stream(end0, end1, sealed);
    a_ = JoinServer("a");
    b_ = JoinServer("b");
    for (int i = 0; i < 2; ++i) {
      SendServerHeartbeat(a_);
      SendServerHeartbeat(b_);
    }
    worker_ = JoinWorker();
  }
  void Train(const Lease& lease) {
    for (uint32_t b = 0; b < lease.cut.batches(); ++b) ledger_.Record(lease.cut, b);
  }
  void Checkpoint() {
    Take(coordinator_->OnCheckpointPrepared(now_, prepared_, CheckpointOrder{0, directory_}));
  }
  // Up to the point where the manifest is to be written.
  Manifest SaveAll() {
    Checkpoint();
    for (NodeId server : {a_, b_}) {
      const auto order = SendServerHeartbeat(server).checkpoint;
      SendServerHeartbeat(server, Saved(server, *order));
    }
    return All<CommitManifest>(actions_).at(0).manifest;
  }
  void Commit(const Manifest& manifest, const Status& status = {}) {
    Take(coordinator_->OnManifestCommitted(now_, manifest.id, status));
  }
  uint64_t Admin(AdminRequest::Kind kind) {
    AdminRequest request;
    request.kind = kind;
    Call(request);
    return last_call_;
  }
  std::optional<Status> AdminAnswer(uint64_t call) const {
    for (const Reply& reply : All<Reply>(actions_)) {
      if (reply.call == call) return std::get<AdminReply>(reply.reply).status;
    }
    return std::nullopt;
  }

  CoordinatorConfig config_ = MakeConfig();
  Time now_{seconds(1000)};
  std::unique_ptr<Coordinator> coordinator_;
  CoordinatorActions actions_;
  std::vector<JournalRecord> journal_;
  Ledger ledger_{std::vector<Position>{{0, 0}, {0, 1000}}};
  uint64_t version_ = 0;  // version of all slices
  std::map<NodeId, std::vector<SliceOrder>> orders_;
  std::map<NodeId, Generation> generations_;  // generations of the servers' views
  // Contents of the servers' heartbeats.
  std::map<NodeId, std::vector<MoveReport>> move_reports_;
  std::map<NodeId, std::vector<SliceTraffic>> traffic_;
  std::set<NodeId> leaving_;
  uint64_t last_call_ = 0;
  uint64_t prepared_ = 0;                // the newest checkpoint requested
  std::string directory_ = "directory";  // directory of the next checkpoint
  NodeId a_, b_, worker_;
};

}  // namespace leat::protocol
