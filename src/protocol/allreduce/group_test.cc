// The coordinator's and the members' state machines together, in a simulation with delays, deaths and
// restarts, checked by a model that counts each event.
#include "protocol/allreduce/group_member.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/rng.h"
#include "base/testing.h"
#include "protocol/allreduce/member_groups.h"

namespace leat::protocol {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint32_t kPartitions = 2;
constexpr uint64_t kEvents = 240;  // events per partition

SliceTable Table() {
  return MakeSlices({{"seen", Shape{kPartitions * kEvents}, {}}, {"sum", Shape{64}, {}}}, 1, 1);
}

// The surroundings of the machines: control plane, exchange among members, files, time.
class World {
 public:
  struct Options {
    uint64_t seed = 1;
    uint32_t workers = 3;
    uint32_t lanes = 4;
    bool faults = true;
    bool checkpoints = true;
    bool momentum = false;
    std::set<uint64_t> poisoned = {};  // steps with a non-finite lane
    // Processes that cannot reach each other, by number from 1, and until when. Node i has process i; a
    // process whose node is excluded joins again.
    std::set<std::pair<uint64_t, uint64_t>> cut = {};
    Time cut_until = Time::max();
  };

  explicit World(Options options) : options_(options), rng_(options.seed), table_(Table()) {
    GroupCoordinatorConfig config;
    config.workers = options.workers;
    groups_ = std::make_unique<GroupCoordinator>(config);
    optimizer_ = optim::Defaults(options.momentum ? optim::Kind::kMomentum : optim::Kind::kSgd);
    optimizer_.learning_rate = 1;
    strategy_.kind = StrategyKind::kAllReduce;
    strategy_.lanes = options.lanes;
    strategy_.sum = true;
    MakeRounds();
  }

  // Runs until the members of a group have all steps; false if that takes too long.
  bool Run() {
    for (uint32_t i = 0; i < options_.workers; ++i) Spawn();
    if (options_.faults) At(Random(milliseconds(50), milliseconds(300)), [this] { InjectFault(); });
    if (options_.checkpoints) At(milliseconds(150), [this] { StartCheckpoint(); });
    while (!events_.empty() && now_ < seconds(300) && groups_->failure().ok()) {
      const auto event = events_.begin();
      now_ = event->first.first;
      const auto what = std::move(event->second);
      events_.erase(event);
      what();
      StepGroups();
      const MemberReport* least = groups_->Least();
      if (least != nullptr && least->step == total_steps_) return true;
    }
    return false;
  }

  struct Node {
    NodeId id;
    uint64_t process = 0;
    std::unique_ptr<Parameters> parameters;
    std::unique_ptr<GroupMember> group_member;
    bool alive = true;
    Time deaf_until{0};     // cut off from the control plane
    uint64_t in_group = 0;  // joined and not left
    Time last_heartbeat{0};
    std::map<uint64_t, Lease> leases;
  };

  const Node* Member() const {
    for (const auto& [id, node] : nodes_) {
      if (node.alive && groups_->Has(id)) return &node;
    }
    return nullptr;
  }
  std::vector<const Node*> Members() const {
    std::vector<const Node*> members;
    for (const auto& [id, node] : nodes_) {
      if (node.alive && groups_->Has(id)) members.push_back(&node);
    }
    return members;
  }
  uint64_t total_steps() const { return total_steps_; }
  const GroupCoordinator& groups() const { return *groups_; }
  const std::vector<uint64_t>& excluded() const { return excluded_; }  // processes, in order
  uint64_t returns() const { return returns_; }
  uint64_t shares() const { return shares_; }
  uint64_t aheads() const { return aheads_; }
  uint64_t durable_step() const { return durable_step_; }
  const std::vector<Round>& rounds() const { return rounds_; }
  const optim::OptimizerConfig& optimizer() const { return optimizer_; }

  NodeId Spawn(uint64_t process = 0) {
    const NodeId id(++last_node_);
    Node& node = nodes_[id];
    node.id = id;
    node.process = process != 0 ? process : id.value;
    node.parameters = std::make_unique<Parameters>(table_);
    node.group_member = std::make_unique<GroupMember>(GroupMemberConfig{.table = table_,
                                                                        .optimizer = optimizer_,
                                                                        .strategy = strategy_,
                                                                        .parameters = node.parameters.get()});
    node.group_member->OnJoined(id);
    seen_[id] = now_;
    groups_->Join(now_, protocol::Member{id, Role::kWorker, static_cast<uint32_t>(id.value), ""},
                  node.process);
    At(Random(milliseconds(1), milliseconds(50)), [this, id] { Tick(id); });
    return id;
  }

 private:
  void MakeRounds() {
    const CutRules rules{.hash = 1, .batch_size = 3, .split_batches = 3, .shuffle_seed = 0, .epochs = 1};
    std::vector<Cut> cuts;
    for (uint32_t p = 0; p < kPartitions; ++p) {
      Position at{0, 0};
      while (auto cut = NextCut(rules, p, at, PassesFrom(0, rules.epochs), kEvents, true, true)) {
        at = cut->next();
        cuts.push_back(*cut);
      }
    }
    std::ranges::stable_sort(cuts, {}, [](const Cut& cut) { return cut.begin.offset; });
    // As many lanes as there are cuts of one length.
    uint64_t step = 0;
    for (size_t i = 0; i < cuts.size();) {
      Round round{.first_step = step, .lanes = {}};
      while (i < cuts.size() && round.lanes.size() < options_.lanes &&
             (round.lanes.empty() || round.lanes[0].cut.runs() == cuts[i].runs())) {
        round.lanes.push_back({cuts[i], RunSet(cuts[i].runs(), true)});
        ++i;
      }
      step = round.end();
      rounds_.push_back(round);
    }
    total_steps_ = step;
  }

  Duration Random(Duration least, Duration most) {
    return least + Duration(static_cast<int64_t>(rng_() % static_cast<uint64_t>((most - least).count() + 1)));
  }
  bool Chance(double p) { return static_cast<double>(rng_() % 10000) < p * 10000; }
  void At(Duration after, std::function<void()> what) { events_[{now_ + after, ++order_}] = std::move(what); }
  Node* Alive(NodeId id) {
    const auto at = nodes_.find(id);
    return at != nodes_.end() && at->second.alive ? &at->second : nullptr;
  }

  // ---- control plane
  void Tick(NodeId id) {
    Node* node = Alive(id);
    if (node == nullptr) return;
    if (now_ - node->last_heartbeat >= milliseconds(100) || node->group_member->HeartbeatUrgent()) {
      node->last_heartbeat = now_;
      if (now_ >= node->deaf_until) {
        const auto heartbeat = node->group_member->MakeHeartbeat();
        At(Random(milliseconds(0), milliseconds(3)), [this, id, heartbeat] {
          const auto reply = OnHeartbeatReply(id, heartbeat);
          At(Random(milliseconds(0), milliseconds(3)), [this, id, reply] {
            Node* to = Alive(id);
            if (to == nullptr) return;
            if (now_ >= to->deaf_until) Do(id, to->group_member->OnHeartbeatReply(reply));
            At(milliseconds(10), [this, id] { Tick(id); });
          });
        });
        return;
      }
    }
    At(milliseconds(10), [this, id] { Tick(id); });
  }

  WorkerHeartbeatReply OnHeartbeatReply(NodeId id, const WorkerHeartbeat& heartbeat) {
    WorkerHeartbeatReply reply;
    if (!seen_.contains(id)) {
      reply.evicted = true;
      return reply;
    }
    seen_[id] = now_;
    const MemberReport& report = *heartbeat.member_report;
    groups_->Report(now_, id, report, heartbeat.unreachable);
    StepGroups();
    if (!seen_.contains(id)) {  // it has just been excluded
      reply.evicted = true;
      return reply;
    }
    for (uint32_t p = 0; p < kPartitions; ++p) reply.start.push_back({0, 0});
    const auto& group = groups_->current();
    if (!group || !groups_->Has(id)) return reply;
    reply.group = group;
    if (group->decided && groups_->from_source()) {
      for (uint32_t i = 0; i < table_.slices.size(); ++i) {
        reply.group->orders.push_back(
            {SliceId(i), Incarnation(group->id), durable_.empty() ? "" : "checkpoint", "", 0});
      }
    }
    if (const MemberReport* least = groups_->Least(); least != nullptr && report.group == group->id) {
      for (const Round& round : rounds_) {
        if (round.end() <= report.rounds_until || round.first_step >= least->step + 6) continue;
        if (pending_ && round.first_step >= pending_->order.version) break;
        told_ = std::max(told_, round.end());
        reply.rounds.push_back(round);
      }
    }
    if (pending_ && pending_->group == group->id) {
      if (report.group == group->id && report.shard && report.shard->checkpoint == pending_->order.id) {
        EXPECT_TRUE(report.shard->status.ok()) << report.shard->status.ToString();
        for (const SliceIncarnation& incarnation : report.shard->slices) {
          if (incarnation.incarnation == Incarnation(group->id))
            pending_->saved.insert(incarnation.slice.value);
        }
        if (pending_->saved.size() == table_.slices.size()) Commit();
      } else {
        reply.checkpoint = pending_->order;
      }
    }
    return reply;
  }

  void StepGroups() {
    while (true) {
      if (!groups_->Advance(now_, [this] { return ++last_group_; })) {
        const auto excluded = groups_->TakeExcluded();
        if (excluded.empty()) return;
        for (const NodeId node : excluded) {
          excluded_.push_back(nodes_.at(node).process);
          Lost(node);
        }
        continue;
      }
      const auto& group = groups_->current();
      if (group && group->decided && groups_->from_source() && group->step > 0) ++returns_;
      if (group && group->decided && group->holder != NodeId()) ++shares_;
      if (group && !group->decided) pending_.reset(), told_ = 0;
    }
  }

  void Lost(NodeId id) {
    seen_.erase(id);
    groups_->Remove(now_, id);
  }

  // ---- checkpoints
  void StartCheckpoint() {
    At(Random(milliseconds(200), milliseconds(600)), [this] { StartCheckpoint(); });
    if (pending_ || groups_->Least() == nullptr) return;
    Pending pending;
    pending.group = groups_->current()->id;
    pending.order = {++last_checkpoint_, "checkpoint", std::max(told_, groups_->Least()->step)};
    pending_ = std::move(pending);
  }
  void Commit() {
    durable_.assign(table_.slices.size(), nullptr);
    for (const auto& slice : files_[pending_->order.id]) {
      if (slice->incarnation == Incarnation(pending_->group)) durable_[slice->id.value] = slice;
    }
    for (const auto& slice : durable_) {
      ASSERT_NE(slice, nullptr);
      EXPECT_EQ(slice->version, pending_->order.version);
      EXPECT_EQ(slice->ledger, durable_[0]->ledger);
    }
    durable_step_ = pending_->order.version;
    pending_.reset();
    groups_->SetSource(now_, durable_step_);
  }

  // ---- the shell
  void Do(NodeId id, const GroupMemberActions& actions) {
    for (const auto& action : actions) {
      Node* node = Alive(id);
      if (node == nullptr) return;
      std::visit([&](const auto& a) { Act(*node, a); }, action);
    }
  }
  template <class Input>
  void Later(NodeId id, Duration least, Duration most, Input input) {
    At(Random(least, most), [this, id, input = std::move(input)] {
      if (Node* node = Alive(id)) Do(id, input(*node->group_member));
    });
  }

  void Act(Node& node, const PrepareSplit& a) {
    node.leases[a.lease.id] = a.lease;
    const bool fails = Chance(0.02);
    Later(node.id, milliseconds(1), milliseconds(30), [id = a.lease.id, fails](GroupMember& group_member) {
      return fails ? group_member.OnSplitFailed(id) : group_member.OnSplitReady(id);
    });
  }
  void Act(Node& node, const DropSplit& a) { node.leases.erase(a.lease); }
  void Act(Node& node, const StopRole& a) {
    EXPECT_TRUE(a.evicted);
    Kill(node.id, false);
    Spawn(node.process);
  }
  void Act(Node& node, const LoadSlices& a) {
    for (const SliceOrder& order : a.orders) {
      Later(node.id, milliseconds(1), milliseconds(30), [this, order](GroupMember& group_member) {
        return group_member.OnSliceLoaded(order, *durable_[order.slice.value]);
      });
    }
  }
  void Act(Node& node, const SaveShard& a) {
    ShardReport report;
    report.checkpoint = a.order.id;
    std::vector<uint64_t> sizes;
    for (const auto& slice : a.slices) sizes.push_back(slice->memory.size());
    EXPECT_EQ(node.group_member->BytesToSave(), sizes);
    auto& files = files_[a.order.id];
    files.insert(files.end(), a.slices.begin(), a.slices.end());
    Later(node.id, milliseconds(1), milliseconds(50), [report](GroupMember& group_member) {
      group_member.OnShardSaved(report);
      return GroupMemberActions{};
    });
  }
  void Act(Node& node, const ComputeLane& a) {
    const Lease& lease = node.leases.at(a.lease);
    const Cut& cut = lease.cut;
    if (a.first) {
      for (size_t v = 0; v < table_.variables.size(); ++v)
        std::ranges::fill(node.parameters->gradients(v), 0.0f);
    }
    BatchOutcome outcome{Disposition::kGradient, 0};
    const uint64_t begin = cut.begin.offset + a.batch * cut.batch_size;
    const uint64_t end = std::min<uint64_t>(cut.end, begin + cut.batch_size);
    for (uint64_t offset = begin; offset < end; ++offset) {
      node.parameters->gradients(0)[cut.partition * kEvents + offset] += 1;
      node.parameters->gradients(1)[offset % 64] += static_cast<float>(offset);
      ++outcome.events;
    }
    if (options_.poisoned.contains(a.step) && a.lane == 1) outcome.disposition = Disposition::kRejected;
    Later(node.id, milliseconds(1), milliseconds(25), [token = a.token, outcome](GroupMember& group_member) {
      return group_member.OnComputed(token, outcome);
    });
  }

  // ---- among members: an operation that all members of a group make together.
  struct Together {
    std::map<NodeId, std::function<void(bool)>> who;  // the outcome: done, or failed
    std::vector<float> sum;
    std::vector<LaneOutcome> lanes;
    GroupMember::Snapshot state;
  };
  struct Rendezvous {
    std::vector<NodeId> members;
    std::map<std::pair<int, uint64_t>, Together> under_way;
    std::set<NodeId> gone;
  };
  enum { kJoin = 0, kShare = 1, kReduce = 2 };

  Together* Enter(Node& node, uint64_t group, int kind, uint64_t step, std::function<void(bool)> after) {
    Rendezvous& meeting = meetings_[group];
    Together& together = meeting.under_way[{kind, step}];
    together.who[node.id] = std::move(after);
    return &together;
  }
  void Close(uint64_t group, int kind, uint64_t step) {
    Rendezvous& meeting = meetings_[group];
    const auto at = meeting.under_way.find({kind, step});
    if (at->second.who.size() < meeting.members.size() || !meeting.gone.empty()) return;
    for (auto& [id, after] : at->second.who) {
      At(Random(milliseconds(1), milliseconds(20)), [this, id = id, group, after = std::move(after)] {
        Node* node = Alive(id);
        if (node != nullptr && node->in_group == group) after(true);
      });
    }
    meeting.under_way.erase(at);
  }
  // The other members learn later that the group is broken.
  void Leave(NodeId id, uint64_t group) {
    if (group == 0) return;
    Rendezvous& meeting = meetings_[group];
    meeting.gone.insert(id);
    for (NodeId other : meeting.members) {
      if (other == id) continue;
      At(Random(milliseconds(1), milliseconds(40)), [this, other, group] {
        Node* node = Alive(other);
        if (node != nullptr && node->in_group == group) {
          Do(other, node->group_member->OnBroken(group, Status(Code::kUnavailable, "a member is gone")));
        }
      });
    }
  }

  void Act(Node& node, const LeaveGroup& a) {
    if (node.in_group != a.group) return;
    node.in_group = 0;
    Leave(node.id, a.group);
  }
  void Act(Node& node, const JoinGroup& a) {
    node.in_group = a.group;
    Rendezvous& meeting = meetings_[a.group];
    meeting.members.clear();
    for (const auto& member : a.members) meeting.members.push_back(member.node);
    ASSERT_EQ(meeting.members[a.rank], node.id);
    const NodeId id = node.id;
    Enter(node, a.group, kJoin, 0, [this, id, group = a.group](bool) {
      Do(id, nodes_.at(id).group_member->OnConnected(group, Status()));
    });
    if (now_ < options_.cut_until) {
      for (uint32_t rank = 0; rank < a.members.size(); ++rank) {
        const uint64_t other = nodes_.at(a.members[rank].node).process;
        if (!options_.cut.contains(std::minmax(node.process, other))) continue;
        meeting.gone.insert(id);  // the group is never complete
        At(milliseconds(500), [this, id, group = a.group, rank] {
          Node* still = Alive(id);
          if (still == nullptr || still->in_group != group) return;
          still->group_member->OnUnreachable(group, rank);
          Do(id, still->group_member->OnConnected(group, Status(Code::kDeadlineExceeded, "no answer")));
        });
      }
    }
    Close(a.group, kJoin, 0);
    At(seconds(2), [this, id, group = a.group] {
      Node* still = Alive(id);
      if (still == nullptr || still->in_group != group || !meetings_[group].under_way.contains({kJoin, 0}))
        return;
      Do(id, still->group_member->OnConnected(group, Status(Code::kDeadlineExceeded, "not all have come")));
    });
  }
  void Act(Node& node, const BroadcastState& a) {
    const NodeId id = node.id;
    const auto shared = std::make_shared<GroupMember::Snapshot>();
    Together* together = Enter(node, a.group, kShare, 0, [this, id, group = a.group](bool) {
      Do(id, nodes_.at(id).group_member->OnStateReceived(group, states_.at(group)));
    });
    if (meetings_[a.group].members[a.holder] == id) {
      together->state.header = node.group_member->state().header();
      for (const auto& part : node.group_member->state().Memory()) {
        together->state.memory.insert(together->state.memory.end(), part.begin(), part.end());
      }
      states_[a.group] = together->state;
    }
    Close(a.group, kShare, 0);
  }
  void Act(Node& node, const ReduceStep& a) {
    const NodeId id = node.id;
    EXPECT_EQ(node.group_member->state().header().step, a.step);
    Together* together = Enter(node, a.group, kReduce, a.step, [this, id, group = a.group, a](bool) {
      const auto& result = results_.at({group, a.step});
      Node& me = nodes_.at(id);
      size_t at = 0;
      for (size_t v = 0; v < table_.variables.size(); ++v) {
        const auto out = me.parameters->gradients(v);
        std::copy_n(result.sum.begin() + static_cast<ptrdiff_t>(at), out.size(), out.begin());
        at += out.size();
      }
      Applies(me, group, a.step);
      ReducedStep reduced{result.lanes, true};
      Do(id, me.group_member->OnReduced(a.token, reduced));
    });
    // A member that computes nothing adds nothing: its gradients are of an earlier step.
    bool any = false;
    for (uint32_t lane = a.first_lane; lane < a.end_lane; ++lane) {
      any = any || a.lanes[lane].kind != LaneOutcome::Kind::kHeld;
    }
    together->lanes.resize(a.lanes.size());
    for (uint32_t lane = a.first_lane; lane < a.end_lane; ++lane) together->lanes[lane] = a.lanes[lane];
    size_t at = 0;
    for (size_t v = 0; v < table_.variables.size(); ++v) {
      const auto gradients = node.parameters->gradients(v);
      together->sum.resize(std::max(together->sum.size(), at + gradients.size()));
      for (float g : gradients) together->sum[at++] += any ? g : 0;
    }
    results_[{a.group, a.step}] = *together;
    Close(a.group, kReduce, a.step);
  }
  // The member applies the step in this group.
  void Applies(const Node& node, uint64_t group, uint64_t step) {
    (void)node;
    auto& by = applied_[step];
    if (!by.empty() && *by.rbegin() < group) ++aheads_;
    by.insert(group);
  }

  // ---- faults
  void Kill(NodeId id, bool noticed_later) {
    Node* node = Alive(id);
    if (node == nullptr) return;
    node->alive = false;
    Leave(id, node->in_group);
    if (noticed_later) {
      At(Random(milliseconds(0), milliseconds(500)), [this, id] { Lost(id); });
    }
  }
  void InjectFault() {
    At(Random(milliseconds(50), milliseconds(500)), [this] { InjectFault(); });
    for (auto& [id, seen] : std::map(seen_)) {
      if (now_ - seen > seconds(1)) Lost(id);
    }
    std::vector<NodeId> alive;
    for (const auto& [id, node] : nodes_) {
      if (node.alive) alive.push_back(id);
    }
    if (now_ > seconds(20)) {
      if (alive.empty()) Spawn();
      return;  // let it end
    }
    const double which = static_cast<double>(rng_() % 100);
    if (which < 35 && !alive.empty()) {
      Kill(alive[rng_() % alive.size()], true);
    } else if (which < 42) {
      for (NodeId id : alive) Kill(id, true);
    } else if (which < 55 && !alive.empty()) {
      // Cut off from the coordinator, for shorter or longer than the heartbeat timeout, but not from the
      // other members.
      nodes_.at(alive[rng_() % alive.size()]).deaf_until = now_ + Random(milliseconds(50), seconds(3));
    }
    if (alive.size() < options_.workers + 1 && Chance(0.7)) Spawn();
  }

  struct Pending {
    CheckpointOrder order;
    uint64_t group = 0;
    std::set<uint32_t> saved;
  };

  Options options_;
  Rng rng_;
  SliceTable table_;
  optim::OptimizerConfig optimizer_;
  StrategyConfig strategy_;
  std::vector<Round> rounds_;
  uint64_t total_steps_ = 0;
  Time now_{seconds(1)};
  std::map<std::pair<Time, uint64_t>, std::function<void()>> events_;
  uint64_t order_ = 0;
  std::unique_ptr<GroupCoordinator> groups_;
  std::map<NodeId, Node> nodes_;
  std::map<NodeId, Time> seen_;
  std::vector<uint64_t> excluded_;
  uint64_t last_node_ = 0, last_group_ = 0, last_checkpoint_ = 0;
  std::map<uint64_t, Rendezvous> meetings_;
  std::map<uint64_t, GroupMember::Snapshot> states_;
  std::map<std::pair<uint64_t, uint64_t>, Together> results_;
  std::map<uint64_t, std::set<uint64_t>> applied_;
  std::optional<Pending> pending_;
  uint64_t told_ = 0;
  std::map<uint64_t, std::vector<std::shared_ptr<const Slice>>> files_;
  std::vector<std::shared_ptr<const Slice>> durable_;
  uint64_t durable_step_ = 0;
  uint64_t returns_ = 0, shares_ = 0, aheads_ = 0;
};

void ExpectCountedOnce(const World& world, const std::set<uint64_t>& skipped = {}) {
  std::vector<float> wanted(kPartitions * kEvents, -1.0f);
  for (const Round& round : world.rounds()) {
    for (uint64_t step : skipped) {
      if (step < round.first_step || step >= round.end()) continue;
      for (const Round::Lane& part : round.lanes) {
        const uint64_t begin = part.cut.begin.offset + (step - round.first_step) * part.cut.batch_size;
        const uint64_t end = std::min<uint64_t>(part.cut.end, begin + part.cut.batch_size);
        for (uint64_t o = begin; o < end; ++o) wanted[part.cut.partition * kEvents + o] = 0;
      }
    }
  }
  const auto members = world.Members();
  ASSERT_FALSE(members.empty());
  for (const World::Node* node : members) {
    const auto seen = node->parameters->values(0);
    EXPECT_TRUE(std::ranges::equal(seen, wanted)) << "node " << node->id.value;
    EXPECT_TRUE(std::ranges::equal(node->parameters->values(1), members[0]->parameters->values(1)));
    EXPECT_EQ(node->group_member->state().header(), members[0]->group_member->state().header());
    for (uint32_t p = 0; p < kPartitions; ++p) {
      EXPECT_EQ(node->group_member->state().header().ledger.partitions()[p].done, (Position{0, kEvents}));
    }
  }
}

TEST(GroupMemberTest, AGroupTrainsAStream) {
  World world({.seed = 1, .faults = false, .checkpoints = false});
  ASSERT_TRUE(world.Run());
  ExpectCountedOnce(world);
  EXPECT_EQ(world.groups().current()->id, 1u);
}

TEST(GroupMemberTest, ThereMayBeMoreMembersThanLanesAndFewer) {
  for (uint32_t lanes : {1u, 2u, 7u}) {
    for (uint32_t workers : {1u, 3u, 5u}) {
      World world({.workers = workers, .lanes = lanes, .faults = false});
      ASSERT_TRUE(world.Run()) << lanes << " lanes, " << workers << " workers";
      ExpectCountedOnce(world);
    }
  }
}

TEST(GroupMemberTest, AStepThatIsNotFiniteIsSkippedByAllAndCounted) {
  World world({.faults = false, .poisoned = {2, 3}});
  ASSERT_TRUE(world.Run());
  ExpectCountedOnce(world, {2, 3});
  for (const World::Node* node : world.Members()) {
    const auto report = *node->group_member->MakeHeartbeat().member_report;
    EXPECT_EQ(report.skipped, 2u);
    EXPECT_EQ(report.consecutive_rejected, 0u);
    ASSERT_TRUE(report.rejected);
    EXPECT_EQ(report.rejected->cut, world.rounds()[1].lanes[1].cut);
  }
}

TEST(GroupMemberTest, LeavesWhenItIsToldTo) {
  GroupMember member({.table = Table(), .optimizer = {}, .strategy = {.kind = StrategyKind::kAllReduce}});
  member.OnJoined(NodeId(1));
  EXPECT_FALSE(member.MakeHeartbeat().leaving);
  WorkerHeartbeatReply reply;
  reply.drain = true;
  EXPECT_TRUE(member.OnHeartbeatReply(reply).empty());
  EXPECT_TRUE(member.HeartbeatUrgent());
  EXPECT_TRUE(member.MakeHeartbeat().leaving);
  reply = {};
  reply.evicted = true;
  const auto actions = member.OnHeartbeatReply(reply);
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_FALSE(std::get<StopRole>(actions[0]).evicted) << "it does not join again";
}

// All its members wait for what each of them learns.
TEST(GroupMemberTest, AsksAtOnceWhileAGroupForms) {
  GroupMember member({.table = Table(), .optimizer = {}, .strategy = {.kind = StrategyKind::kAllReduce}});
  member.OnJoined(NodeId(1));
  member.MakeHeartbeat();
  EXPECT_FALSE(member.HeartbeatUrgent());
  EXPECT_FALSE(member.Idle());
  WorkerHeartbeatReply reply;
  reply.group =
      Group{.id = 3, .members = {{NodeId(1), Role::kWorker, 0, "a"}, {NodeId(2), Role::kWorker, 1, "b"}}};
  member.OnHeartbeatReply(reply);
  EXPECT_FALSE(member.Idle()) << "it has joined the group";
  member.MakeHeartbeat();
  EXPECT_TRUE(member.HeartbeatUrgent());
  EXPECT_TRUE(member.Idle()) << "but it may take long";
  EXPECT_FALSE(member.Steady());
}

TEST(GroupMemberTest, OfTwoThatCannotReachEachOtherTheYoungerLeaves) {
  World world({.faults = false, .cut = {{1, 3}}});
  ASSERT_TRUE(world.Run());
  ExpectCountedOnce(world);
  EXPECT_THAT(world.excluded(), ::testing::ElementsAre(3));
  EXPECT_EQ(world.Members().size(), 2u);
  // Its process has joined again and waits, as the status tells.
  ASSERT_EQ(world.groups().Unreachable().size(), 1u);
  EXPECT_EQ(world.groups().Unreachable()[0].second, NodeId(1));
}

TEST(GroupMemberTest, TheOneWithMoreUnreachablePeersLeaves) {
  World world({.workers = 4, .faults = false, .cut = {{1, 3}, {1, 4}}});
  ASSERT_TRUE(world.Run());
  ExpectCountedOnce(world);
  EXPECT_THAT(world.excluded(), ::testing::ElementsAre(1));
}

TEST(GroupMemberTest, AnExcludedMemberComesBackWhenItCanBeReached) {
  GroupCoordinator groups({.workers = 2});
  uint64_t last_id = 0;
  const auto step = [&](Time now) {
    while (groups.Advance(now, [&] { return ++last_id; })) {
    }
    return groups.TakeExcluded();
  };
  const auto member = [](uint64_t node) {
    return Member{NodeId(node), Role::kWorker, static_cast<uint32_t>(node), ""};
  };
  const auto fail = [&](Time now, uint64_t node, uint64_t other) {
    const MemberReport report{.group = groups.current()->id, .failure = "no answer"};
    groups.Report(now, NodeId(1), report, {NodeId(node == 1 ? other : 1)});
    groups.Report(now, NodeId(other), report, {NodeId(1)});
  };
  Time now = seconds(1);
  groups.Join(now, member(1), 71);
  groups.Join(now, member(2), 72);
  Duration length = seconds(30);
  NodeId younger(2);
  for (int times = 0; times < 3; ++times, length *= 2) {
    std::vector<NodeId> excluded;
    for (int group = 0; excluded.empty(); ++group) {
      ASSERT_LT(group, 3);
      EXPECT_TRUE(step(now).empty());
      ASSERT_EQ(groups.current()->members.size(), 2u);
      fail(now, 1, younger.value);
      now += seconds(5);
      excluded = step(now);
      EXPECT_EQ(group == 1, !excluded.empty());
    }
    ASSERT_EQ(excluded, std::vector{younger});
    groups.Remove(now, younger);
    younger = NodeId(younger.value + 1);
    groups.Join(now, member(younger.value), 72);
    const Time since = now;
    EXPECT_EQ(groups.Unreachable(), (std::vector{std::pair(younger, NodeId(1))}));
    step(now);
    ASSERT_EQ(groups.current()->members.size(), 1u);
    groups.Report(now, NodeId(1), {.group = groups.current()->id, .holds = true, .connected = true});
    step(now);
    ASSERT_EQ(groups.phase(), GroupCoordinator::Phase::kRunning);
    step(since + length - milliseconds(1));
    EXPECT_EQ(groups.current()->members.size(), 1u);
    now = since + length + seconds(1);
    step(now);
    ASSERT_EQ(groups.current()->members.size(), 2u);
    EXPECT_TRUE(groups.Unreachable().empty());
  }
}

// A dead member has not joined the group, so it is not taken for one that is cut off.
TEST(GroupMemberTest, NobodyIsExcludedBecauseOfADeadMember) {
  GroupCoordinator groups({.workers = 2});
  uint64_t last_id = 0;
  Time now = seconds(1);
  for (uint64_t node : {1, 2}) {
    groups.Join(now, {NodeId(node), Role::kWorker, static_cast<uint32_t>(node), ""}, 70 + node);
  }
  for (int group = 0; group < 6; ++group, now += seconds(5)) {
    while (groups.Advance(now, [&] { return ++last_id; })) {
    }
    EXPECT_TRUE(groups.TakeExcluded().empty());
    groups.Report(now, NodeId(2), {.group = groups.current()->id, .failure = "no answer"}, {NodeId(1)});
  }
}

TEST(GroupMemberTest, AGroupThatCannotRestoreIsSaidAndTheNextOneStartsFromAnotherCheckpoint) {
  GroupCoordinator groups({.workers = 1});
  uint64_t last_id = 0;
  Time now = seconds(1);
  const auto step = [&] {
    while (groups.Advance(now, [&] { return ++last_id; })) {
    }
  };
  groups.SetSource(now, 8);
  groups.Join(now, {NodeId(1), Role::kWorker, 0, ""}, 71);
  step();
  for (const uint64_t source : {uint64_t{8}, uint64_t{4}}) {
    const uint64_t group = groups.current()->id;
    EXPECT_EQ(groups.RestoreFailed(), std::nullopt);
    groups.Report(now, NodeId(1), {.group = group});
    step();
    ASSERT_TRUE(groups.from_source());
    EXPECT_EQ(groups.current()->step, source);
    EXPECT_EQ(groups.RestoreFailed(), std::nullopt);
    groups.Report(now, NodeId(1), {.group = group, .failure = "flipped bit"});
    EXPECT_EQ(groups.RestoreFailed(), group);
    groups.RestartFrom(4);
    step();
    EXPECT_GT(groups.current()->id, group);
  }
}

TEST(GroupMemberTest, EveryEventCountsOnceForAnyFaultsOfWorkers) {
  uint64_t returns = 0, shares = 0, aheads = 0, checkpoints = 0;
  const uint64_t seeds = SeedsOf(300, 6);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    // In every third world two of the first workers cannot reach each other for a while.
    World world({.seed = seed,
                 .cut = seed % 3 == 0 ? std::set{std::pair<uint64_t, uint64_t>(1, 2 + seed % 2)}
                                      : std::set<std::pair<uint64_t, uint64_t>>{},
                 .cut_until = seconds(1 + seed % 10)});
    ASSERT_TRUE(world.Run()) << "seed " << seed << ": " << world.groups().failure().ToString();
    ExpectCountedOnce(world);
    if (HasFailure()) FAIL() << "seed " << seed;
    returns += world.returns();
    shares += world.shares();
    aheads += world.aheads();
    checkpoints += world.durable_step() > 0;
  }
  // The test is void without these events.
  EXPECT_GT(returns, seeds / 15);
  EXPECT_GT(shares, seeds / 3);
  EXPECT_GT(aheads, seeds / 15);
  EXPECT_GT(checkpoints, seeds / 6);
}

TEST(GroupMemberTest, AMemberHasComputedIfOneOfItsOwnLanesWasNotHeld) {
  using Kind = LaneOutcome::Kind;
  ReduceStep step{.lanes = {{Kind::kGradient, 5}, {}, {}, {Kind::kEmpty, 0}}, .first_lane = 1, .end_lane = 3};
  EXPECT_FALSE(step.computed_any());
  step.end_lane = 4;
  EXPECT_TRUE(step.computed_any());
  step.first_lane = step.end_lane = 0;
  EXPECT_FALSE(step.computed_any());
}

TEST(GroupMemberTest, LanesAreInBlocksByRank) {
  for (uint32_t members : {1u, 2u, 3u, 5u, 8u}) {
    for (uint32_t width : {1u, 2u, 3u, 7u, 8u, 20u}) {
      uint32_t next = 0;
      for (uint32_t rank = 0; rank < members; ++rank) {
        const auto [first, end] = LanesOf(rank, members, width);
        EXPECT_EQ(first, next);
        next = end;
        for (uint32_t lane = first; lane < end; ++lane) EXPECT_EQ(uint64_t{lane} * members / width, rank);
      }
      EXPECT_EQ(next, width);
    }
  }
}

}  // namespace
}  // namespace leat::protocol
