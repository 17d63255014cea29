#include "protocol/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "base/rng.h"
#include "protocol/slice_map.h"

namespace leat::protocol {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

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
    return config;
  }

  void Start(Restored restored) {
    coordinator_ = std::make_unique<Coordinator>(config_, std::move(restored));
  }

  void Take(CoordinatorActions actions) {
    actions_ = std::move(actions);
    for (const Journal& journal : All<Journal>(actions_)) journal_.push_back(journal.record);
    for (const PrepareCheckpoint& prepare : All<PrepareCheckpoint>(actions_)) prepared_ = prepare.id;
  }
  ControlReply Ask(const ControlRequest& request) {
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
    return std::get<JoinReply>(Ask(request));
  }
  NodeId JoinServer(const std::string& address) { return Join(Role::kServer, address).node; }
  NodeId JoinWorker() { return Join(Role::kWorker).node; }

  WorkerHeartbeatReply Beat(NodeId worker, uint32_t wanted = 0, std::vector<uint64_t> held = {},
                            std::vector<uint64_t> released = {}) {
    WorkerHeartbeat beat;
    beat.node = worker;
    beat.leases_wanted = wanted;
    beat.held = std::move(held);
    beat.released = std::move(released);
    return std::get<WorkerHeartbeatReply>(Ask(beat));
  }

  // A server that carries out its orders at once; `ledger` is what all its slices hold.
  ServerHeartbeatReply BeatServer(NodeId server, std::optional<ShardReport> shard = {}) {
    ServerHeartbeat beat;
    beat.node = server;
    LedgerReport report{{}, 0, ledger_.partitions()};
    for (const SliceOrder& order : orders_[server]) report.slices.push_back({order.slice, order.incarnation});
    if (!report.slices.empty()) beat.ledgers.push_back(report);
    beat.shard = std::move(shard);
    const auto reply = std::get<ServerHeartbeatReply>(Ask(beat));
    orders_[server] = reply.orders;
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

  // Two servers whose slices are live, one worker, and a stream.
  void Run(uint64_t end0 = 100, uint64_t end1 = 1000, bool sealed = false) {
    Stream(end0, end1, sealed);
    a_ = JoinServer("a");
    b_ = JoinServer("b");
    for (int i = 0; i < 2; ++i) {
      BeatServer(a_);
      BeatServer(b_);
    }
    worker_ = JoinWorker();
  }
  void Train(const Lease& lease) {
    for (uint32_t b = 0; b < lease.cut.batches(); ++b) ledger_.Note(lease.cut, b);
  }
  void Checkpoint() {
    Take(coordinator_->OnCheckpointPrepared(now_, prepared_, CheckpointOrder{0, "directory"}));
  }
  // Until the manifest is to be written.
  Manifest SaveAll() {
    Checkpoint();
    for (NodeId server : {a_, b_}) {
      const auto order = BeatServer(server).checkpoint;
      BeatServer(server, Saved(server, *order));
    }
    return All<CommitManifest>(actions_).at(0).manifest;
  }
  void Commit(const Manifest& manifest, const Status& status = {}) {
    Take(coordinator_->OnManifestCommitted(now_, manifest.id, status));
  }
  uint64_t Admin(AdminRequest::Kind kind) {
    AdminRequest request;
    request.kind = kind;
    Ask(request);
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
  std::map<NodeId, std::vector<SliceOrder>> orders_;
  uint64_t last_call_ = 0;
  uint64_t prepared_ = 0;  // the newest checkpoint that was asked for
  NodeId a_, b_, worker_;
};

// ---- who is in

TEST_F(CoordinatorTest, JoiningGivesAnIdOnceAndTheJob) {
  const JoinReply worker = Join(Role::kWorker);
  EXPECT_TRUE(worker.status.ok());
  EXPECT_EQ(worker.job, "the job");
  EXPECT_EQ(worker.heartbeat_interval, config_.heartbeat_interval);
  EXPECT_EQ(worker.index, 0u);
  const JoinReply other = Join(Role::kWorker);
  EXPECT_NE(other.node, worker.node);
  EXPECT_EQ(other.index, 1u);
  Take(coordinator_->OnNodeLost(now_, worker.node));
  const JoinReply third = Join(Role::kWorker);
  EXPECT_EQ(third.index, 0u) << "the lowest that is free";
  EXPECT_GT(third.node, other.node);

  EXPECT_FALSE(Join(Role::kServer).status.ok()) << "without an address";
  EXPECT_FALSE(Join(Role::kCoordinator).status.ok());
  EXPECT_FALSE(Join(static_cast<Role>(77)).status.ok());
}

TEST_F(CoordinatorTest, IdsAreJournaledBeforeTheyAreUsedAndNeverGivenAgain) {
  NodeId last;
  for (int life = 0; life < 3; ++life) {
    for (int i = 0; i < 200; ++i) {
      const NodeId node = JoinWorker();
      EXPECT_GT(node, last);
      last = node;
      uint64_t reserved = 0;
      for (const JournalRecord& record : journal_) {
        if (const auto* given = std::get_if<NodesGiven>(&record)) reserved = given->node;
      }
      ASSERT_LT(node.value, reserved);
    }
    const Generation generation = coordinator_->status().view.generation;
    Start({std::nullopt, journal_});
    JoinWorker();
    EXPECT_GT(coordinator_->status().view.generation, generation);
  }
  EXPECT_LT(journal_.size(), 30u) << "in blocks";
}

TEST_F(CoordinatorTest, UnknownNodesAreEvictedAndWrongRolesToo) {
  EXPECT_TRUE(Beat(NodeId(55)).evicted);
  EXPECT_TRUE(BeatServer(NodeId(55)).evicted);
  BotsHeartbeat bots;
  bots.node = NodeId(55);
  EXPECT_TRUE(std::get<BotsHeartbeatReply>(Ask(bots)).evicted);
  const NodeId worker = JoinWorker();
  EXPECT_TRUE(BeatServer(worker).evicted);
  EXPECT_FALSE(Beat(worker).evicted);
  EXPECT_TRUE(std::holds_alternative<Refusal>(Ask(StatusRequest{})));
}

TEST_F(CoordinatorTest, SilenceIsEvictedUnlessItWasOurOwn) {
  Run();
  Take(coordinator_->OnTimer(now_));
  for (int i = 0; i < 49; ++i) {
    now_ += milliseconds(100);
    Take(coordinator_->OnTimer(now_));
    BeatServer(a_);
    BeatServer(b_);
  }
  EXPECT_NE(coordinator_->status().view.Find(worker_), nullptr);
  now_ += milliseconds(200);
  Take(coordinator_->OnTimer(now_));
  EXPECT_EQ(coordinator_->status().view.Find(worker_), nullptr);
  EXPECT_EQ(coordinator_->status().evictions, 1u);
  EXPECT_TRUE(Beat(worker_).evicted);

  now_ += seconds(60);  // the coordinator itself was stopped
  Take(coordinator_->OnTimer(now_));
  EXPECT_EQ(coordinator_->status().evictions, 1u);
  EXPECT_NE(coordinator_->status().view.Find(a_), nullptr);
}

TEST_F(CoordinatorTest, TheViewGrowsWithEveryChangeAndIsSentWhenNewer) {
  Run();
  const auto first = Beat(worker_);
  ASSERT_TRUE(first.view);
  EXPECT_TRUE(first.view->ready());
  EXPECT_EQ(first.view->members.size(), 3u);
  WorkerHeartbeat beat;
  beat.node = worker_;
  beat.generation = first.view->generation;
  EXPECT_FALSE(std::get<WorkerHeartbeatReply>(Ask(beat)).view);
  JoinWorker();
  const auto second = std::get<WorkerHeartbeatReply>(Ask(beat)).view;
  ASSERT_TRUE(second);
  EXPECT_GT(second->generation, first.view->generation);
}

// ---- slices

TEST_F(CoordinatorTest, PlacesSlicesWhenTheStreamAndEnoughServersAreThere) {
  const NodeId a = JoinServer("a");
  EXPECT_THAT(BeatServer(a).orders, IsEmpty());
  const NodeId b = JoinServer("b");
  EXPECT_THAT(BeatServer(a).orders, IsEmpty()) << "where does the stream start?";
  Stream(0, 1000);
  EXPECT_EQ(std::get<StreamStart>(journal_.back()).start, (std::vector<Position>{{0, 0}, {0, 1000}}));
  EXPECT_EQ(BeatServer(a).orders.size(), 6u);
  const auto reply = BeatServer(b);
  EXPECT_EQ(reply.orders.size(), 6u);
  EXPECT_EQ(reply.start, (std::vector<Position>{{0, 0}, {0, 1000}}));
  EXPECT_EQ(reply.orders[0].directory, "");
  EXPECT_EQ(coordinator_->status().phase, Phase::kWaitingForServers);
  BeatServer(a);
  BeatServer(b);
  EXPECT_EQ(coordinator_->status().phase, Phase::kRunning);
}

TEST_F(CoordinatorTest, ALostServersSlicesGoToASpareOrTheNextToJoinOrTheRest) {
  Run();
  const NodeId spare = JoinServer("c");
  EXPECT_THAT(BeatServer(spare).orders, IsEmpty());
  const auto lost = orders_[a_];
  Take(coordinator_->OnNodeLost(now_, a_));
  EXPECT_EQ(coordinator_->status().phase, Phase::kWaitingForServers);
  EXPECT_EQ(BeatServer(spare).orders.size(), 6u) << "to the spare at once";
  EXPECT_GT(orders_[spare][0].incarnation, lost[0].incarnation);
  BeatServer(spare);
  EXPECT_EQ(coordinator_->status().phase, Phase::kRunning);

  Take(coordinator_->OnNodeLost(now_, spare));
  EXPECT_EQ(BeatServer(b_).orders.size(), 6u);
  const NodeId next = JoinServer("d");
  EXPECT_EQ(BeatServer(next).orders.size(), 6u) << "to the next to join";

  Take(coordinator_->OnNodeLost(now_, next));
  now_ += config_.server_wait - milliseconds(1);
  EXPECT_EQ(BeatServer(b_).orders.size(), 6u);
  now_ += milliseconds(1);
  EXPECT_EQ(BeatServer(b_).orders.size(), 12u) << "to whoever is left";
}

TEST_F(CoordinatorTest, AServerThatComesBackAtItsAddressReplacesItself) {
  Run();
  const NodeId again = JoinServer("a");
  EXPECT_EQ(coordinator_->status().view.Find(a_), nullptr);
  EXPECT_EQ(BeatServer(again).orders.size(), 6u);
  EXPECT_TRUE(BeatServer(a_).evicted);
}

TEST_F(CoordinatorTest, ASliceThatCannotBeRestoredEndsTheJob) {
  Run();
  ServerHeartbeatReply reply;
  for (uint32_t i = 0; i < SliceMap::kMaxFailures; ++i) {
    Take(coordinator_->OnNodeLost(now_, a_));
    a_ = JoinServer("a");
    reply = BeatServer(a_);
  }
  for (uint32_t i = 0; i < SliceMap::kMaxFailures; ++i) {
    ServerHeartbeat beat;
    beat.node = a_;
    beat.failed = {{reply.orders[0].slice, reply.orders[0].incarnation}};
    beat.failure = "data loss: checksum of checkpoint-1/shard-1";
    reply = std::get<ServerHeartbeatReply>(Ask(beat));
  }
  EXPECT_TRUE(reply.stop);
  BeatServer(b_);
  Beat(worker_);
  const auto ended = All<JobEnded>(actions_);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].status.code(), Code::kDataLoss);
  EXPECT_NE(ended[0].status.message().find("checksum"), std::string::npos) << ended[0].status.message();
}

// ---- leases

TEST_F(CoordinatorTest, CutsAreJournaledBeforeTheyAreLeased) {
  Run();
  const auto reply = Beat(worker_, 2);
  ASSERT_EQ(reply.leases.size(), 2u);
  ASSERT_TRUE(std::holds_alternative<Journal>(actions_.at(0)));
  ASSERT_TRUE(std::holds_alternative<Reply>(actions_.back()));
  const auto& cuts = std::get<CutsMade>(journal_.back()).cuts;
  for (const Lease& lease : reply.leases) {
    EXPECT_NE(std::find(cuts.begin(), cuts.end(), lease.cut), cuts.end());
    EXPECT_TRUE(lease.missing.full());
  }
  EXPECT_NE(reply.leases[0].id, reply.leases[1].id);
  EXPECT_EQ(coordinator_->status().leases, 2u);
}

TEST_F(CoordinatorTest, NothingIsLeasedWhileASliceIsNotLive) {
  Run();
  Take(coordinator_->OnNodeLost(now_, b_));
  EXPECT_THAT(Beat(worker_, 2).leases, IsEmpty());
  const NodeId c = JoinServer("c");
  BeatServer(c);
  EXPECT_THAT(Beat(worker_, 2).leases, IsEmpty()) << "ordered, but not reported";
  BeatServer(c);
  EXPECT_EQ(Beat(worker_, 2).leases.size(), 2u);
}

TEST_F(CoordinatorTest, ADeadWorkersSplitsAreLeasedAgain) {
  Run();
  const auto leases = Beat(worker_, 2).leases;
  const NodeId other = JoinWorker();
  Take(coordinator_->OnNodeLost(now_, worker_));
  const auto again = Beat(other, 2).leases;
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(again[0].cut, leases[0].cut);
  EXPECT_GT(again[0].id, leases[1].id);
  EXPECT_EQ(coordinator_->status().releases, 2u);
}

TEST_F(CoordinatorTest, ALeavingWorkerGivesEverythingBack) {
  Run(20);
  const auto lease = Beat(worker_, 1).leases.at(0);
  const NodeId other = JoinWorker();
  WorkerHeartbeat beat;
  beat.node = worker_;
  beat.held = {lease.id};
  beat.leaving = true;
  EXPECT_TRUE(std::get<WorkerHeartbeatReply>(Ask(beat)).stop);
  EXPECT_EQ(Beat(other, 1).leases.at(0).cut, lease.cut);
}

TEST_F(CoordinatorTest, ProgressIsWhatTheLedgersSay) {
  Run(40, 1000, true);
  auto leases = Beat(worker_, 2).leases;
  ASSERT_EQ(leases.size(), 2u);
  EXPECT_EQ(coordinator_->status().lag, 40u);
  Beat(worker_, 0, {}, {leases[0].id, leases[1].id});
  EXPECT_EQ(coordinator_->status().lag, 40u) << "a worker's word moves nothing";
  Train(leases[0]);
  BeatServer(a_);
  EXPECT_EQ(coordinator_->status().lag, 40u) << "one server is not all";
  BeatServer(b_);
  EXPECT_EQ(coordinator_->status().lag, 20u);
  BeatServer(a_);
  BeatServer(b_);
  leases = Beat(worker_, 2).leases;
  ASSERT_EQ(leases.size(), 1u) << "the one that nobody has";
  EXPECT_EQ(leases[0].cut.begin, (Position{0, 20}));
}

// ---- checkpoints

TEST_F(CoordinatorTest, ACheckpointNotesTheWatermarkFirstAndHoldsEachSliceOnce) {
  Run();
  const auto leases = Beat(worker_, 2).leases;
  Train(leases[0]);
  BeatServer(a_);
  BeatServer(b_);
  const uint64_t call = Admin(AdminRequest::Kind::kCheckpoint);
  Checkpoint();
  Train(leases[1]);  // after the note
  const auto order = BeatServer(a_).checkpoint;
  ASSERT_TRUE(order);
  EXPECT_EQ(order->directory, "directory");
  BeatServer(a_, Saved(a_, *order));
  EXPECT_FALSE(BeatServer(a_).checkpoint) << "not asked again";
  EXPECT_TRUE(All<CommitManifest>(actions_).empty());
  BeatServer(b_);
  BeatServer(b_, Saved(b_, *order));
  const Manifest manifest = All<CommitManifest>(actions_).at(0).manifest;
  EXPECT_EQ(manifest.directory, "directory");
  EXPECT_EQ(manifest.watermark[0], leases[0].cut.next());
  ASSERT_FALSE(manifest.open.empty());
  EXPECT_EQ(manifest.open[0], leases[1].cut);
  std::vector<int> copies(12, 0);
  for (const auto& shard : manifest.shards) {
    for (const SliceLife& life : shard.slices) ++copies[life.slice.value];
  }
  EXPECT_THAT(copies, ::testing::Each(1));
  EXPECT_FALSE(AdminAnswer(call));
  EXPECT_FALSE(coordinator_->status().checkpoint);
  Commit(manifest);
  EXPECT_TRUE(AdminAnswer(call)->ok());
  EXPECT_EQ(coordinator_->status().checkpoint, manifest.id);
  EXPECT_EQ(All<DropCheckpoints>(actions_).at(0).oldest_kept, manifest.id);
}

TEST_F(CoordinatorTest, KeepsAsManyCheckpointsAsItIsTold) {
  Run();
  std::vector<Manifest> manifests;
  for (int i = 0; i < 4; ++i) {
    Train(Beat(worker_, 1).leases.at(0));
    BeatServer(a_);
    BeatServer(b_);
    Admin(AdminRequest::Kind::kCheckpoint);
    manifests.push_back(SaveAll());
    Commit(manifests.back());
    const auto drop = All<DropCheckpoints>(actions_).at(0);
    const Manifest& oldest = manifests[i == 0 ? 0 : i - 1];
    EXPECT_EQ(drop.oldest_kept, oldest.id);
    EXPECT_EQ(drop.watermark, oldest.watermark);
  }
}

TEST_F(CoordinatorTest, ACheckpointDuringWhichASliceIsLostIsGivenUp) {
  Run();
  const uint64_t call = Admin(AdminRequest::Kind::kCheckpoint);
  Checkpoint();
  const auto order = BeatServer(a_).checkpoint;
  BeatServer(a_, Saved(a_, *order));
  Take(coordinator_->OnNodeLost(now_, b_));
  EXPECT_EQ(AdminAnswer(call)->code(), Code::kUnavailable);
  EXPECT_EQ(coordinator_->status().failed_checkpoints, 1u);
  b_ = JoinServer("b2");
  BeatServer(b_);
  EXPECT_FALSE(BeatServer(b_).checkpoint);
  BeatServer(b_, Saved(b_, *order));
  EXPECT_TRUE(All<CommitManifest>(actions_).empty());

  Admin(AdminRequest::Kind::kCheckpoint);
  const Manifest manifest = SaveAll();
  EXPECT_GT(manifest.id, order->id);
}

TEST_F(CoordinatorTest, ACheckpointThatFailsOrTakesTooLongIsTriedAgain) {
  config_.checkpoint_interval = seconds(10);
  Start({});
  Run();
  const auto due = [&] {
    const bool had = !All<PrepareCheckpoint>(actions_).empty();
    for (int i = 0; i < 200 && All<PrepareCheckpoint>(actions_).empty(); ++i) {
      now_ += milliseconds(100);
      BeatServer(a_);
      if (!All<PrepareCheckpoint>(actions_).empty()) break;
      BeatServer(b_);
      if (!All<PrepareCheckpoint>(actions_).empty()) break;
      Beat(worker_);
      if (!All<PrepareCheckpoint>(actions_).empty()) break;
      Take(coordinator_->OnTimer(now_));
    }
    EXPECT_FALSE(had);
    return All<PrepareCheckpoint>(actions_).at(0).id;
  };
  const uint64_t first = due();
  Take(coordinator_->OnCheckpointPrepared(now_, first, Status(Code::kResourceExhausted, "full")));
  const uint64_t second = due();
  EXPECT_GT(second, first);
  Take(coordinator_->OnCheckpointPrepared(now_, first, CheckpointOrder{first, "outdated"}));
  EXPECT_FALSE(BeatServer(a_).checkpoint);
  Take(coordinator_->OnCheckpointPrepared(now_, second, CheckpointOrder{second, "d"}));
  const auto order = BeatServer(a_).checkpoint;
  ShardReport failed = Saved(a_, *order);
  failed.status = Status(Code::kResourceExhausted, "full");
  BeatServer(a_, failed);
  const uint64_t third = due();
  Take(coordinator_->OnCheckpointPrepared(now_, third, CheckpointOrder{third, "d"}));
  now_ += config_.checkpoint_timeout;
  BeatServer(a_);
  EXPECT_EQ(coordinator_->status().failed_checkpoints, 3u);
  const uint64_t fourth = due();
  EXPECT_GT(fourth, third);
  const Manifest manifest = SaveAll();
  Commit(manifest, Status(Code::kResourceExhausted, "full"));
  EXPECT_FALSE(coordinator_->status().checkpoint);
  EXPECT_EQ(coordinator_->status().failed_checkpoints, 4u);
}

// While the manifest is written its splits are about to be forgotten: a slice that returns from an older one
// meanwhile must return from it instead.
TEST_F(CoordinatorTest, ASliceLostDuringTheCommitReturnsFromTheNewCheckpoint) {
  Run();
  Admin(AdminRequest::Kind::kCheckpoint);
  const Manifest manifest = SaveAll();
  Take(coordinator_->OnNodeLost(now_, b_));
  b_ = JoinServer("b2");
  EXPECT_EQ(BeatServer(b_).orders.at(0).directory, "");
  Commit(manifest);
  EXPECT_EQ(BeatServer(b_).orders.at(0).directory, "directory");
}

TEST_F(CoordinatorTest, ALostServersSlicesReturnFromTheCheckpointAndAreFedAgain) {
  Run(40);
  const auto leases = Beat(worker_, 2).leases;
  Train(leases[0]);
  BeatServer(a_);
  BeatServer(b_);
  Admin(AdminRequest::Kind::kCheckpoint);
  Commit(SaveAll());
  const Ledger saved = ledger_;
  Train(leases[1]);
  Beat(worker_, 0, {}, {leases[0].id, leases[1].id});
  BeatServer(a_);
  BeatServer(b_);
  EXPECT_THAT(Beat(worker_, 2).leases, IsEmpty());
  EXPECT_EQ(coordinator_->status().watermark[0], (Position{0, 40}));

  Take(coordinator_->OnNodeLost(now_, b_));
  EXPECT_EQ(coordinator_->status().watermark[0], (Position{0, 20}));
  b_ = JoinServer("b2");
  const auto orders = BeatServer(b_).orders;
  EXPECT_EQ(orders.at(0).directory, "directory");
  EXPECT_EQ(orders.at(0).file.substr(0, 6), "shard-");
  const Ledger now = std::exchange(ledger_, saved);
  BeatServer(b_);
  ledger_ = now;
  const auto again = Beat(worker_, 2).leases;
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].cut, leases[1].cut);
}

// ---- the end

TEST_F(CoordinatorTest, AFinishedStreamEndsWithACheckpointThenEveryoneIsTold) {
  Run(20, 1000, true);
  const Lease lease = Beat(worker_, 1).leases.at(0);
  Train(lease);
  Beat(worker_, 1, {}, {lease.id});
  BeatServer(a_);
  BeatServer(b_);
  EXPECT_EQ(coordinator_->status().phase, Phase::kStopping);
  const Manifest manifest = SaveAll();
  EXPECT_EQ(manifest.watermark[0], (Position{0, 20}));
  EXPECT_TRUE(manifest.open.empty());
  Commit(manifest);
  EXPECT_TRUE(Beat(worker_).stop);
  EXPECT_FALSE(Join(Role::kWorker).status.ok());
  EXPECT_TRUE(BeatServer(a_).stop);
  EXPECT_TRUE(All<JobEnded>(actions_).empty());
  EXPECT_TRUE(BeatServer(b_).stop);
  ASSERT_EQ(All<JobEnded>(actions_).size(), 1u);
  EXPECT_TRUE(All<JobEnded>(actions_)[0].status.ok());
  EXPECT_EQ(coordinator_->status().phase, Phase::kEnded);
  EXPECT_EQ(coordinator_->next_timer(), Time::max());
  EXPECT_TRUE(std::holds_alternative<Refusal>(Ask(WorkerHeartbeat{})));
}

TEST_F(CoordinatorTest, WhoeverCannotBeToldIsNotWaitedForForEver) {
  Run(0, 1000, true);
  BeatServer(a_);
  Commit(SaveAll());
  BeatServer(a_);
  now_ += config_.heartbeat_timeout;
  Take(coordinator_->OnTimer(now_));
  EXPECT_EQ(All<JobEnded>(actions_).size(), 1u);
}

TEST_F(CoordinatorTest, AStopRevokesSavesAndEnds) {
  Run();
  const auto leases = Beat(worker_, 2).leases;
  Train(leases[0]);
  const uint64_t call = Admin(AdminRequest::Kind::kStop);
  EXPECT_TRUE(All<PrepareCheckpoint>(actions_).empty()) << "the worker is still at it";
  auto reply = Beat(worker_, 2, {leases[0].id, leases[1].id});
  EXPECT_THAT(reply.revoked, ElementsAre(leases[0].id, leases[1].id));
  EXPECT_THAT(reply.leases, IsEmpty());
  EXPECT_FALSE(reply.stop);
  BeatServer(a_);
  BeatServer(b_);
  reply = Beat(worker_, 2);
  ASSERT_EQ(All<PrepareCheckpoint>(actions_).size(), 1u);
  const Manifest manifest = SaveAll();
  EXPECT_EQ(manifest.watermark[0], (Position{0, 20}));
  Commit(manifest);
  EXPECT_TRUE(AdminAnswer(call)->ok());
  EXPECT_TRUE(Beat(worker_).stop);
  BeatServer(a_);
  BeatServer(b_);
  EXPECT_TRUE(All<JobEnded>(actions_).at(0).status.ok());
}

TEST_F(CoordinatorTest, AStopBeforeAnythingBeganJustEnds) {
  const NodeId worker = JoinWorker();
  Admin(AdminRequest::Kind::kStop);
  EXPECT_TRUE(Beat(worker).stop);
  EXPECT_TRUE(All<JobEnded>(actions_).at(0).status.ok());
}

TEST_F(CoordinatorTest, AStopThatCannotSaveSaysSo) {
  Run();
  Take(coordinator_->OnNodeLost(now_, a_));
  Take(coordinator_->OnNodeLost(now_, b_));
  const uint64_t call = Admin(AdminRequest::Kind::kStop);
  now_ += 3 * config_.checkpoint_timeout;
  Beat(worker_);
  EXPECT_EQ(AdminAnswer(call)->code(), Code::kDeadlineExceeded);
  EXPECT_TRUE(Beat(worker_).stop);
  EXPECT_EQ(All<JobEnded>(actions_).at(0).status.code(), Code::kDeadlineExceeded);
}

// ---- resuming

TEST_F(CoordinatorTest, GoesOnFromManifestAndJournalOnAnotherNumberOfServers) {
  Run(200);
  const auto leases = Beat(worker_, 3).leases;
  Train(leases[0]);
  ledger_.Note(leases[2].cut, 1);
  BeatServer(a_);
  BeatServer(b_);
  Admin(AdminRequest::Kind::kCheckpoint);
  const Manifest manifest = SaveAll();
  Commit(manifest);
  Beat(worker_, 8);  // more cuts after the checkpoint
  std::vector<Cut> cuts;
  for (const JournalRecord& record : journal_) {
    if (const auto* made = std::get_if<CutsMade>(&record)) {
      cuts.insert(cuts.end(), made->cuts.begin(), made->cuts.end());
    }
  }
  uint64_t last_life = 0;
  for (const auto& place : coordinator_->status().view.slices)
    last_life = std::max(last_life, place.incarnation.value);

  config_.servers = 1;
  config_.cuts.batch_size = 3;
  config_.cuts.hash = 2;
  Start({manifest, journal_});
  orders_.clear();
  a_ = JoinServer("x");
  Stream(400, 1000);
  const auto orders = BeatServer(a_).orders;
  ASSERT_EQ(orders.size(), 12u);
  for (const SliceOrder& order : orders) {
    EXPECT_EQ(order.directory, "directory");
    EXPECT_GT(order.incarnation.value, last_life);
  }
  BeatServer(a_);
  worker_ = JoinWorker();
  const auto again = Beat(worker_, 20).leases;
  ASSERT_GE(again.size(), cuts.size() - 1);
  for (size_t i = 0; i + 1 < cuts.size(); ++i) EXPECT_EQ(again[i].cut, cuts[i + 1]) << "as they were";
  EXPECT_FALSE(again[1].missing.Has(1)) << "the ledgers hold it";
  const Lease& behind = again.at(cuts.size() - 1);
  EXPECT_EQ(behind.cut.after, cuts.back().next());
  EXPECT_EQ(behind.cut.batch_size, 3u) << "new rules behind the last cut";
  EXPECT_GT(again[0].id, leases.back().id);
}

TEST_F(CoordinatorTest, AJournalWithoutACheckpointStartsOver) {
  Run();
  const auto lease = Beat(worker_, 1).leases.at(0);
  Start({std::nullopt, journal_});
  orders_.clear();
  a_ = JoinServer("a");
  b_ = JoinServer("b");
  for (int i = 0; i < 2; ++i) {
    BeatServer(a_);
    EXPECT_EQ(orders_[a_].at(0).directory, "");
    BeatServer(b_);
  }
  EXPECT_EQ(Beat(JoinWorker(), 1).leases.at(0).cut, lease.cut);
}

TEST_F(CoordinatorTest, RefusesToResumeFromWhatContradicts) {
  Run();
  Admin(AdminRequest::Kind::kCheckpoint);
  const Manifest manifest = SaveAll();
  const auto refused = [&](auto change) {
    Restored restored{manifest, journal_};
    change(&restored);
    try {
      Coordinator coordinator(config_, restored);
    } catch (const std::invalid_argument&) {
      return true;
    }
    return false;
  };
  EXPECT_FALSE(refused([](Restored*) {}));
  EXPECT_TRUE(refused([](Restored* r) { r->journal.clear(); }));
  EXPECT_TRUE(refused([](Restored* r) { r->manifest->shards.pop_back(); }));
  EXPECT_TRUE(refused([](Restored* r) { r->manifest->shards.push_back(r->manifest->shards[0]); }));
  EXPECT_TRUE(refused([](Restored* r) { r->manifest->shards[0].slices[0].slice = SliceId(99); }));
  EXPECT_TRUE(refused([](Restored* r) { r->manifest->watermark.pop_back(); }));
  EXPECT_TRUE(refused([](Restored* r) { r->journal = {StreamStart{{{0, 0}}}}; }));
  config_.partitions = {1, 2};
  EXPECT_THROW(Start({}), std::invalid_argument);
}

TEST_F(CoordinatorTest, AFinishedJobThatIsResumedEndsWithoutAnotherCheckpoint) {
  Run(0, 1000, true);
  BeatServer(a_);
  const Manifest manifest = SaveAll();
  Commit(manifest);
  Start({manifest, journal_});
  orders_.clear();
  Stream(0, 1000, true);
  a_ = JoinServer("a");
  b_ = JoinServer("b");
  for (NodeId server : {a_, b_, a_, b_}) BeatServer(server);
  EXPECT_TRUE(All<PrepareCheckpoint>(actions_).empty());
  EXPECT_TRUE(BeatServer(a_).stop);
}

// ---- what anyone may say

// Random messages, of members and others: no crash, and never two answers to one call.
TEST_F(CoordinatorTest, SurvivesAnyMessages) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    config_.checkpoint_interval = milliseconds(500);
    Start({});
    orders_.clear();
    Run(500, 1500);
    std::vector<uint64_t> ids = {0, 1, 2, 3};
    const auto some_id = [&] { return rng.Chance(0.9) ? ids[rng.Below(ids.size())] : rng(); };
    const auto some_node = [&] { return NodeId(rng.Chance(0.9) ? 1 + rng.Below(6) : rng()); };
    const auto some_cut = [&] {
      Cut cut;
      cut.partition = static_cast<uint32_t>(rng.Below(3));
      cut.begin =
          cut.after = {static_cast<uint32_t>(rng.Below(2)), cut.partition * 1000 + rng.Below(20) * 20};
      cut.end = cut.begin.offset + rng.Below(50);
      cut.batch_size = static_cast<uint32_t>(rng.Below(20));
      return cut;
    };
    const auto some_lives = [&] {
      std::vector<SliceLife> lives;
      const auto places = coordinator_->status().view.slices;
      for (uint32_t i = 0; i < 14; ++i) {
        if (rng.Chance(0.5)) continue;
        const bool known = i < places.size() && rng.Chance(0.9);
        lives.push_back({SliceId(i), known ? places[i].incarnation : Incarnation(some_id())});
      }
      return lives;
    };
    std::map<uint64_t, int> answers;
    for (int round = 0; round < 1500; ++round) {
      now_ += milliseconds(rng.Below(30));
      const uint64_t what = rng.Below(12);
      ControlRequest request;
      if (what < 4) {
        WorkerHeartbeat beat;
        beat.node = some_node();
        beat.leases_wanted = static_cast<uint32_t>(rng.Chance(0.9) ? rng.Below(4) : rng());
        for (uint64_t i = rng.Below(4); i > 0; --i) beat.held.push_back(some_id());
        for (uint64_t i = rng.Below(3); i > 0; --i) beat.released.push_back(some_id());
        beat.leaving = rng.Chance(0.02);
        request = beat;
      } else if (what < 8) {
        ServerHeartbeat beat;
        beat.node = some_node();
        for (uint64_t i = rng.Below(3); i > 0; --i) {
          LedgerReport report{some_lives(), rng.Below(1000),
                              std::vector<PartitionLedger>(rng.Chance(0.9) ? 2 : 3)};
          for (PartitionLedger& partition : report.partitions) {
            partition.done = {static_cast<uint32_t>(rng.Below(2)), rng.Below(2000)};
            if (rng.Chance(0.5))
              partition.open.push_back({some_cut(), BatchSet(static_cast<uint32_t>(rng.Below(9)), true)});
          }
          beat.ledgers.push_back(report);
        }
        if (rng.Chance(0.05)) beat.failed = some_lives();
        if (rng.Chance(0.5)) {
          beat.shard = ShardReport{};
          beat.shard->checkpoint = rng.Chance(0.8) ? prepared_ : rng.Below(5);
          beat.shard->slices = some_lives();
        }
        request = beat;
      } else if (what < 9) {
        request = AdminRequest{static_cast<AdminRequest::Kind>(rng.Below(5) == 4 ? 9 : rng.Below(2) * 2),
                               some_node()};
      } else if (what < 10) {
        JoinRequest join;
        join.role = static_cast<Role>(rng.Below(6));
        join.address = rng.Chance(0.5) ? "a" : "z";
        request = join;
      } else if (what < 11) {
        Take(coordinator_->OnStream(now_, {{static_cast<uint32_t>(rng.Below(4)), rng.Below(2000),
                                            rng.Below(4000), rng.Chance(0.1)}}));
        continue;
      } else {
        Result<CheckpointOrder> order = Status(Code::kResourceExhausted, "full");
        if (rng.Chance(0.8)) order = CheckpointOrder{prepared_, "d"};
        Take(coordinator_->OnCheckpointPrepared(now_, prepared_, order));
        Take(coordinator_->OnManifestCommitted(now_, prepared_, rng.Chance(0.8) ? Status() : order.status()));
        Take(coordinator_->OnTimer(now_));
        continue;
      }
      Ask(request);
      for (const Reply& reply : All<Reply>(actions_)) {
        EXPECT_EQ(++answers[reply.call], 1);
        if (const auto* beat = std::get_if<WorkerHeartbeatReply>(&reply.reply)) {
          for (const Lease& lease : beat->leases) ids.push_back(lease.id);
        }
      }
      if (coordinator_->status().phase == Phase::kEnded) break;
    }
  }
}

}  // namespace
}  // namespace leat::protocol
