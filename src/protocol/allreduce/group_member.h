// A worker of an all-reduce job as a state machine: it keeps all parameters itself and makes steps together
// with the other members of its group.
//
// The protocol between members and the coordinator, in heartbeats:
//   1. The coordinator names a group (id, members). A worker that learns of it leaves every earlier group: it
//      aborts work in progress, of which nothing has been applied. It connects to the other members and
//      reports, under the new id, the step that it holds.
//   2. When all members have reported, the coordinator decides that the group continues from the highest step
//      that a member holds, or from the newest checkpoint if none holds any. A member with that step
//      broadcasts it to the others. Each member keeps its old state until it has received the new one
//      completely.
//   3. When all have reported that step and that they are connected, the coordinator announces the rounds,
//      all lanes to every member. When all lanes of a step are reduced, each member applies it. All have the
//      same sums, so all either apply it, or skip it if it is not finite, and record its runs. The job's step
//      is the lowest step that a member reports.
//
// It uses no sockets, threads or clock. A shell executes the actions in order and reports their results;
// outdated answers are ignored. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "protocol/actions.h"
#include "protocol/allreduce/training_state.h"
#include "protocol/messages_control.h"
#include "protocol/messages_data.h"
#include "protocol/strategy.h"

namespace leat::protocol {

// ---- answers to those that follow the parameters (subscribers/subscriber.h): pure functions

// The values that a member has between two steps.
struct MemberValues {
  Incarnation incarnation;  // the id of the group that has made them
  uint64_t step = 0;
  friend bool operator==(const MemberValues&, const MemberValues&) = default;
};

// kInvalidArgument for a request that is no pull of slices of the job; close the connection then.
Status CheckPull(const PushRequest& request, size_t slices);
// Says which slices the requester does not have; their values are to follow. `values`: none if the member has
// none now. `view`: the member's; a requester that is not in it as one that follows gets nothing.
PushReply AnswerPull(const PushRequest& request, const View& view, const std::optional<MemberValues>& values);

// ---- the member

struct GroupMemberConfig {
  SliceTable table;
  optim::OptimizerConfig optimizer;
  StrategyConfig strategy;
  // Memory of the model's parameters; null: modelled steps. Must outlive the member.
  Parameters* parameters = nullptr;
  Allocate allocate = {};    // for the copies that are saved; null: ordinary memory
  bool late_labels = false;  // the job has late labels: each lane has its own; any other round is a failure
};

// ---- actions, in addition to those of actions.h
// Abort all work of this group, without an answer.
struct LeaveGroup {
  uint64_t group = 0;
};
// Connect to all members. Answer: OnConnected.
struct JoinGroup {
  uint64_t group = 0;
  uint32_t rank = 0;
  std::vector<Member> members;
};
// All members execute this together: broadcasts the state of `holder`. Answer: OnStateReceived; on the
// holder, `memory` may be empty.
struct BroadcastState {
  uint64_t group = 0;
  uint32_t holder = 0;  // rank
};
// Score and train one batch of a prepared split. Gradients are summed over the batches of this member's lanes
// in a step, weighted by events (compute/optim/mean.h). Always answered by OnComputed before the next
// computation.
struct ComputeLane {
  uint64_t token = 0;
  uint64_t lease = 0;
  uint32_t batch = 0;
  uint64_t step = 0;
  uint32_t lane = 0;
  bool first = true;  // the first of this member's batches in the step: the sum starts at zero
  bool last = true;   // the last of them: gradients may be reduced as soon as they are ready
};
// The outcome of one lane of a step.
struct LaneOutcome {
  enum class Kind : uint8_t {
    kHeld = 0,  // its run was in the ledger: nothing was computed
    kGradient = 1,
    kEmpty = 2,
    kRejected = 3,
  } kind = Kind::kHeld;
  uint32_t events = 0;
  friend bool operator==(const LaneOutcome&, const LaneOutcome&) = default;
};
// Finish the step's reduction. The gradients of the parameters receive the sums of all members (or OnReduced
// gets the terms of those sums), and all members receive the outcomes and moments of all lanes. Answer:
// OnReduced.
struct ReduceStep {
  uint64_t token = 0;
  uint64_t group = 0;
  uint64_t step = 0;
  std::vector<LaneOutcome> lanes;  // outcomes of all lanes; other members fill in theirs
  uint32_t first_lane = 0, end_lane = 0;
  // True if a lane of this member was computed for this step. If not, its gradients are of an earlier step.
  bool computed_any() const {
    return std::any_of(lanes.begin() + first_lane, lanes.begin() + end_lane,
                       [](const LaneOutcome& lane) { return lane.kind != LaneOutcome::Kind::kHeld; });
  }
};
struct ReducedStep {
  std::vector<LaneOutcome> lanes;  // outcomes of all lanes
  bool finite = true;              // all sums are
  GradientTerms terms = {};        // valid during OnReduced
  // Moments of the lanes with gradients, merged in the order of lanes, if the job has moments. The gradients
  // and terms have none.
  std::vector<float> moments = {};
};
using GroupMemberAction = std::variant<PrepareSplit, DropSplit, LeaveGroup, JoinGroup, BroadcastState,
                                       ComputeLane, ReduceStep, LoadSlices, SaveShard, StopRole>;
using GroupMemberActions = std::vector<GroupMemberAction>;

// The lanes [first, second) of a step that belong to `rank`.
std::pair<uint32_t, uint32_t> LanesOf(uint32_t rank, uint32_t members, uint32_t width);

// The rounds that a member of a group makes, and the splits of its own lanes in them.
//
// Invariants: rounds follow each other without a gap, and the first one has steps after the one that the
// member holds; every own lane of the next kRoundsAhead rounds has a lease, under which its split is read.
class MemberRounds {
 public:
  struct Known {
    Round round;
    std::vector<std::vector<uint32_t>> runs;  // by lane: the run of each step
    std::map<uint32_t, uint64_t> leases;      // leases of its own lanes
    uint32_t width() const { return static_cast<uint32_t>(round.lanes.size()); }
    uint32_t RunOf(uint32_t lane, uint64_t step) const { return runs[lane][step - round.first_step]; }
  };

  // `actions`: where it adds its own; they outlive it.
  MemberRounds(bool late_labels, GroupMemberActions& actions)
      : late_labels_(late_labels), actions_(actions) {}

  bool empty() const { return rounds_.empty(); }
  const Known& front() const { return rounds_.front(); }
  // The step after the last round, for a member that holds `step`.
  uint64_t End(uint64_t step) const { return rounds_.empty() ? step : rounds_.back().round.end(); }
  bool wanted() const { return rounds_.size() < kRoundsAhead; }

  // Adds the rounds after those that are here. Returns why one cannot be made; empty: all can.
  std::string Take(const std::vector<Round>& newer, uint64_t step, size_t partitions);
  // Has the splits of this rank's lanes read, without runs that the ledger holds.
  void Prepare(uint32_t rank, uint32_t members, const Ledger& ledger);
  void PopFront();
  void Clear();

  // The split of an own lane in the first round.
  uint64_t LeaseOf(uint32_t lane) const { return rounds_.front().leases.at(lane); }
  bool IsReady(uint64_t lease) const { return ready_.at(lease); }
  void OnSplitReady(uint64_t lease);
  // Has the split read again, if it is still wanted.
  void OnSplitFailed(uint64_t lease);

 private:
  // Rounds are requested one ahead of the current one, so that its splits are ready.
  static constexpr size_t kRoundsAhead = 2;

  void Drop(Known* known);

  const bool late_labels_;
  GroupMemberActions& actions_;
  std::deque<Known> rounds_;
  std::map<uint64_t, Lease> leases_;
  std::map<uint64_t, bool> ready_;  // by lease
  uint64_t last_lease_ = 0;
};

// A group member's part of a checkpoint: the slices that it saves, and its report until the coordinator has
// it.
//
// Invariants: one shard is saved at a time; an order is obeyed once, at its own step; a new group voids the
// orders and reports of earlier ones. Not thread-safe.
class MemberShard {
 public:
  // The arguments outlive it. `actions`: where it adds its own. `allocate`: as in GroupMemberConfig.
  MemberShard(const SliceTable& table, const Allocate& allocate, GroupMemberActions& actions)
      : table_(table), allocate_(allocate), actions_(actions) {}

  void TakeOrder(const CheckpointOrder& order) {
    if (order.id > last_) order_ = order;
  }
  void Void() {
    order_.reset();
    report_.reset();
  }
  // Starts to save this member's shard once it is at the order's step. True if there is something to report.
  bool Save(const TrainingState& held, const Group& group, uint32_t rank);
  // False: it is the report of another order.
  bool OnSaved(ShardReport report);
  const std::optional<ShardReport>& report() const { return report_; }
  // The slices of the shard of a rank.
  std::vector<SliceId> SlicesOf(const Group& group, uint32_t rank) const;

 private:
  const SliceTable& table_;
  const Allocate& allocate_;
  GroupMemberActions& actions_;
  std::optional<CheckpointOrder> order_;  // not begun yet
  uint64_t last_ = 0;                     // id of the last order that was begun
  std::optional<uint64_t> saving_;        // its id, until it is saved
  std::vector<SliceIncarnation> saved_;
  std::optional<ShardReport> report_;
};

class GroupMember {
 public:
  struct Snapshot {
    TrainingState::Header header;
    std::vector<float> memory;
  };

  explicit GroupMember(GroupMemberConfig config)
      : config_(std::move(config)),
        held_(config_.table, config_.optimizer, config_.strategy, config_.parameters),
        rounds_(config_.late_labels, actions_),
        shard_(config_.table, config_.allocate, actions_) {}
  GroupMember(const GroupMember&) = delete;
  GroupMember& operator=(const GroupMember&) = delete;

  // `term`: of the coordinator.
  void OnJoined(NodeId node, uint64_t term = 0) {
    node_ = node;
    term_ = term;
  }
  // ---- control plane. The shell fills in `progress`.
  WorkerHeartbeat MakeHeartbeat();
  // True if a heartbeat should be sent without waiting for the interval.
  bool HeartbeatUrgent() const;
  // It has no round, or its group is being formed, and it only asks for what comes next.
  bool Idle() const { return !heartbeat_urgent_ && HeartbeatUrgent(); }
  // It trains, and has nothing to report or to ask.
  bool Steady() const { return Going() && !HeartbeatUrgent(); }
  GroupMemberActions OnHeartbeatReply(const WorkerHeartbeatReply& reply);
  // The next heartbeat announces that this member leaves.
  void Leave() { leaving_ = heartbeat_urgent_ = true; }

  // ---- input. A split that could not be read is requested again at once. The shell limits the rate and
  // decides when to give up.
  GroupMemberActions OnSplitReady(uint64_t lease);
  GroupMemberActions OnSplitFailed(uint64_t lease);
  GroupMemberActions OnComputed(uint64_t token, const BatchOutcome& outcome);

  // ---- the group. A failure ends the group for this member; the coordinator names another.
  // Before the failure itself: this member could not reach the one of that rank.
  void OnUnreachable(uint64_t group, uint32_t rank);
  GroupMemberActions OnConnected(uint64_t group, const Status& status);
  GroupMemberActions OnStateReceived(uint64_t group, Result<Snapshot> state);
  GroupMemberActions OnReduced(uint64_t token, Result<ReducedStep> step);
  GroupMemberActions OnBroken(uint64_t group, const Status& why);

  // ---- files
  GroupMemberActions OnSliceLoaded(const SliceOrder& order, Result<Slice> slice);
  // The bytes of each slice that this member's shard would have now.
  std::vector<uint64_t> BytesToSave() const;
  void OnShardSaved(ShardReport report);

  const View& view() const { return *view_; }
  uint64_t term() const { return term_; }  // term of the coordinator that it follows
  bool holds() const { return holds_; }
  // The parameters of the group as of the last step; none while it does not have the state that the group
  // starts from. They change in OnReduced, and while it has none.
  std::optional<MemberValues> values() const;
  // The parameters and ledger that it holds.
  const TrainingState& state() const { return held_; }

 private:
  // The current step.
  struct Work {
    uint64_t token = 0;  // token of the pending action
    std::vector<LaneOutcome> lanes;
    uint32_t first_lane = 0, end_lane = 0;
    uint32_t lane = 0;   // being computed; end_lane: all are
    uint32_t batch = 0;  // batch of that lane's run
    bool begun = false;
    bool reducing = false;
  };
  struct Loading {
    std::vector<SliceOrder> orders;
    std::vector<std::optional<Slice>> slices;
  };

  // ---- groups
  void TakeGroup(const Group& newer);
  void Quit();
  void Fail(std::string why);
  void Fill();
  void OnStateReady();  // the state that the group starts from has arrived
  bool Going() const {
    return group_ && group_->decided && failure_.empty() && holds_ && connected_ && !stopped_ && filled_ &&
           held_.header().step >= group_->step;
  }
  // For other members or for rounds, not for its own input or computation.
  bool Waiting() const { return !Going() || rounds_.empty() || (work_ && work_->reducing); }
  // ---- steps
  void Prepare();
  void Advance();
  void Start();
  void ComputeNext();
  void Complete(const ReducedStep& step);
  GroupMemberActions Take() { return std::exchange(actions_, {}); }

  GroupMemberConfig config_;
  GroupMemberActions actions_;
  NodeId node_;
  uint64_t term_ = 0;  // term of the coordinator that it follows
  Shared<View> view_ = View();
  std::vector<Position> start_;
  TrainingState held_;
  bool holds_ = false;

  std::optional<Group> group_;
  uint32_t rank_ = 0;
  bool connected_ = false;
  bool sharing_ = false;
  bool filled_ = false;
  std::string failure_;
  std::optional<NodeId> unreachable_;  // the peer because of which the group has failed
  std::optional<Loading> loading_;

  MemberRounds rounds_;  // with steps after the one held
  uint64_t last_token_ = 0;
  std::optional<Work> work_;
  bool computing_ = false;  // the shell computes, maybe for a former group

  MemberShard shard_;

  uint32_t consecutive_rejected_ = 0;
  std::optional<RejectedRun> rejected_;
  uint64_t skipped_ = 0;
  bool heartbeat_urgent_ = false;
  bool leaving_ = false;
  bool stopped_ = false;
};

}  // namespace leat::protocol
