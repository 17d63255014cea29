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
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "protocol/actions.h"
#include "protocol/allreduce/pull_answer.h"
#include "protocol/allreduce/training_state.h"
#include "protocol/messages_control.h"
#include "protocol/strategy.h"

namespace leat::protocol {

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

class GroupMember {
 public:
  struct Snapshot {
    TrainingState::Header header;
    std::vector<float> memory;
  };

  explicit GroupMember(GroupMemberConfig config);
  ~GroupMember();

  // `term`: of the coordinator.
  void OnJoined(NodeId node, uint64_t term = 0);
  // ---- control plane. The shell fills in `progress`.
  WorkerHeartbeat MakeHeartbeat();
  // True if a heartbeat should be sent without waiting for the interval.
  bool HeartbeatUrgent() const;
  // It has no round, or its group is being formed, and it only asks for what comes next.
  bool Idle() const;
  // It trains, and has nothing to report or to ask.
  bool Steady() const;
  GroupMemberActions OnHeartbeatReply(const WorkerHeartbeatReply& reply);
  // The next heartbeat announces that this member leaves.
  void Leave();

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

  const View& view() const;
  uint64_t term() const;  // term of the coordinator that it follows
  bool holds() const;
  // The parameters of the group as of the last step; none while it does not have the state that the group
  // starts from. They change in OnReduced, and while it has none.
  std::optional<MemberValues> values() const;
  // The parameters and ledger that it holds.
  const TrainingState& state() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace leat::protocol
