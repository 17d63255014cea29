// The state of a GroupMember: its group, and the step that it makes. Its rounds and its shard of a checkpoint
// are in MemberRounds and MemberShard. Private: only group_member*.cc include it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/allreduce/group_member.h"
#include "protocol/allreduce/member/member_rounds.h"
#include "protocol/allreduce/member/member_shard.h"

namespace leat::protocol {

struct GroupMember::State {
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

  explicit State(GroupMemberConfig c)
      : config(std::move(c)),
        held(config.table, config.optimizer, config.strategy, config.parameters),
        rounds(config.late_labels, actions),
        shard(config.table, config.allocate, actions) {}

  // ---- groups
  void TakeGroup(const Group& newer);
  void Quit();
  void Fail(std::string why);
  void Fill();
  void OnStateReady();  // the state that the group starts from has arrived
  bool Going() const {
    return group && group->decided && failure.empty() && holds && connected && !stopped && filled &&
           held.header().step >= group->step;
  }
  // For other members or for rounds, not for its own input or computation.
  bool Waiting() const { return !Going() || rounds.empty() || (work && work->reducing); }
  // ---- steps
  void TakeRounds(const std::vector<Round>& newer);
  void Prepare();
  void Advance();
  void Start();
  void ComputeNext();
  void Complete(const ReducedStep& step);
  GroupMemberActions Take() { return std::exchange(actions, {}); }

  GroupMemberConfig config;
  GroupMemberActions actions;
  NodeId node;
  uint64_t term = 0;  // term of the coordinator that it follows
  Shared<View> view = View();
  std::vector<Position> start;
  TrainingState held;
  bool holds = false;

  std::optional<Group> group;
  uint32_t rank = 0;
  bool connected = false;
  bool sharing = false;
  bool filled = false;
  std::string failure;
  std::optional<NodeId> unreachable;  // the peer because of which the group has failed
  std::optional<Loading> loading;

  MemberRounds rounds;  // with steps after the one held
  uint64_t last_token = 0;
  std::optional<Work> work;
  bool computing = false;  // the shell computes, maybe for a former group

  MemberShard shard;

  uint32_t consecutive_rejected = 0;
  std::optional<RejectedRun> rejected;
  uint64_t skipped = 0;
  bool heartbeat_urgent = false;
  bool leaving = false;
  bool stopped = false;
};

}  // namespace leat::protocol
