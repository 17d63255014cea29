// A worker where there are no servers, as a state machine: it keeps all parameters itself and makes steps
// together with the other members of its group.
//
// What it and the coordinator say to each other, heartbeat by heartbeat:
//   1. The coordinator names a group (id, members). Whoever hears of it has no part any more in a step of an
//      earlier one: what is under way is given up, and nothing of it was applied. It connects to the others
//      and reports, under the new id, the step it holds.
//   2. Once all members have reported so, the coordinator decides: the group goes on from the highest step
//      that one of them holds, or, where nobody holds any, from the newest checkpoint. Who has that step
//      gives it to all the others, and nobody lets go of what he holds before he has it whole.
//   3. Once all have reported that step, and that they are connected, the coordinator tells the rounds, all
//      lanes of them to everybody. A step is applied, by each member by itself, when all its lanes are
//      reduced; all have the same sums, so all do the same: apply it, or skip it where not all of it is
//      finite, and note its runs. The lowest step that any member reports is what the job has.
//
// No socket, thread or clock inside. A shell carries out the actions in their order and feeds back what
// became of them; answers that are outdated are dropped. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "protocol/actions.h"
#include "protocol/member/training_state.h"
#include "protocol/messages_control.h"
#include "protocol/strategy.h"

namespace leat::protocol {

struct GroupMemberConfig {
  SliceTable table;
  optim::OptimizerConfig optimizer;
  StrategyConfig strategy;
  // Where the model computes; null: modelled steps. Must outlive the replica.
  Parameters* parameters = nullptr;
};

// ---- actions, beside those of actions.h
// Nothing more of this group: what is under way in it is aborted, without an answer.
struct LeaveGroup {
  uint64_t group = 0;
};
// Connect to all members. Answer: OnConnected.
struct JoinGroup {
  uint64_t group = 0;
  uint32_t rank = 0;
  std::vector<Member> members;
};
// All members of the group do this at once: the state of `holder` goes to all. Answer: OnStateReceived, in
// whose `memory` the holder may leave out what it has itself.
struct BroadcastState {
  uint64_t group = 0;
  uint32_t holder = 0;  // rank
};
// Score and train one batch of a prepared split. Gradients are added up over the batches of this member's
// lanes in a step, weighted by events (optim/mean.h). Always answered by OnComputed; nothing else is computed
// before.
struct ComputeLane {
  uint64_t token = 0;
  uint64_t lease = 0;
  uint32_t batch = 0;
  uint64_t step = 0;
  uint32_t lane = 0;
  bool first = true;  // of all that this member computes for the step: nothing is added up yet
  bool last = true;   // of all that it does: what is ready may be reduced at once
};
// What became of one lane of a step.
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
// Finish the step's reduction: the sums of all members' gradients come to where the parameters have
// gradients (or what is to be added up to them to where it can be seen), and what has become of its lanes to
// everybody. Answer: OnReduced.
struct ReduceStep {
  uint64_t token = 0;
  uint64_t group = 0;
  uint64_t step = 0;
  std::vector<LaneOutcome> lanes;  // of all; what is not this member's comes from others
  uint32_t first_lane = 0, end_lane = 0;
  // Of the member's lanes any was computed for this step; else what it has added up is of an earlier one.
  bool computed_any() const {
    return std::any_of(lanes.begin() + first_lane, lanes.begin() + end_lane,
                       [](const LaneOutcome& lane) { return lane.kind != LaneOutcome::Kind::kHeld; });
  }
};
struct ReducedStep {
  std::vector<LaneOutcome> lanes;  // of all
  bool finite = true;              // all sums are
  GradientTerms terms = {};        // valid during OnReduced
};
using GroupMemberAction = std::variant<PrepareSplit, DropSplit, LeaveGroup, JoinGroup, BroadcastState,
                                       ComputeLane, ReduceStep, LoadSlices, SaveShard, StopRole>;
using GroupMemberActions = std::vector<GroupMemberAction>;

// Lanes [first, second) of a step are those of this rank.
std::pair<uint32_t, uint32_t> LanesOf(uint32_t rank, uint32_t members, uint32_t width);

class GroupMember {
 public:
  struct Snapshot {
    TrainingState::Header header;
    std::vector<float> memory;
  };

  explicit GroupMember(GroupMemberConfig config);
  ~GroupMember();

  void OnJoined(NodeId node);
  // ---- control plane. `progress` is the shell's to fill in.
  WorkerHeartbeat MakeHeartbeat();
  // True when a heartbeat should not wait for its interval.
  bool HeartbeatUrgent() const;
  GroupMemberActions OnHeartbeatReply(const WorkerHeartbeatReply& reply);
  // The next heartbeat says so.
  void Leave();

  // ---- input. A split that could not be read is asked for again at once: the shell keeps the pace, and
  // decides when to give up altogether.
  GroupMemberActions OnSplitReady(uint64_t lease);
  GroupMemberActions OnSplitFailed(uint64_t lease);
  GroupMemberActions OnComputed(uint64_t token, const BatchOutcome& outcome);

  // ---- the group. A failure ends it for this member; the coordinator will name another.
  GroupMemberActions OnConnected(uint64_t group, const Status& status);
  GroupMemberActions OnStateReceived(uint64_t group, Result<Snapshot> state);
  GroupMemberActions OnReduced(uint64_t token, Result<ReducedStep> step);
  GroupMemberActions OnBroken(uint64_t group, const Status& why);

  // ---- files
  GroupMemberActions OnSliceLoaded(const SliceOrder& order, Result<Slice> slice);
  void OnShardSaved(ShardReport report);

  const View& view() const;
  bool holds() const;
  // What it holds, to be shared or looked at.
  const TrainingState& state() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace leat::protocol
