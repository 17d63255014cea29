// All-reduce workers: they form groups, compute lanes, and apply reduced steps.
//
// Checks that members have the same state at the same step, and differ by at most one step
// (kAllReduceMembersAgree), and that no member accepts a piece sent in another group (kAllReduceOneGroup).
//
// A group's blackboard carries data that members exchange without a reduction: each member writes its part
// when it starts a bucket, and reads when the bucket ends, because then all have written. Invariant: a
// blackboard lives as long as a member is in its group.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "lab/sim/allreduce/group_parts.h"
#include "lab/sim/members/role_process.h"
#include "protocol/allreduce/group_member.h"

namespace leat::sim {

class GroupMembers : Concern {
 public:
  explicit GroupMembers(ClusterConcerns& all);

  // Gives a new incarnation of a process its machine.
  void Start(const ProcessPtr& p);
  // Clears the group state of a process that has ended or restarts.
  void Forget(const ProcessPtr& p);
  // Gives the machine an input later, not inside another action, and only within this incarnation.
  void Later(const ProcessPtr& p, Duration delay,
             std::function<protocol::GroupMemberActions(protocol::GroupMember&)> input);

  void Execute(const ProcessPtr& p, const protocol::LeaveGroup&) { Leave(p); }
  void Execute(const ProcessPtr& p, const protocol::JoinGroup& a);
  void Execute(const ProcessPtr& p, const protocol::BroadcastState& a);
  void Execute(const ProcessPtr& p, const protocol::ComputeLane& a);
  void Execute(const ProcessPtr& p, const protocol::ReduceStep& a);

  // ---- ends of reductions
  void OnStateShared(const ProcessPtr& p);
  // The whole step has been reduced.
  void OnReduced(const ProcessPtr& p);
  // Fails the pending operations of a broken group.
  void FailUnderWay(const ProcessPtr& p);
  void CheckPiece(const RoleProcess& p, const Piece& piece);

 private:
  struct Blackboard {
    uint32_t there = 0;                                            // members that have not left
    std::map<uint64_t, std::vector<protocol::LaneOutcome>> lanes;  // by step; kHeld: no member's yet
    std::map<uint64_t, std::vector<std::vector<float>>> moments;   // by step and lane
    std::shared_ptr<const protocol::GroupMember::Snapshot> state;  // the holder's
  };

  struct Held {
    protocol::TrainingState::Header header;
    std::vector<float> memory;
  };
  struct GroupSteps {
    std::map<uint64_t, Held> held;  // by step: the state of the first member to reach it
    std::vector<uint64_t> reached;  // by rank: the last completed step; 0: none yet
  };

  // The process leaves its group.
  void Leave(const ProcessPtr& p);
  void AddLane(RoleProcess* p, uint32_t lane, uint64_t events);
  // Sends the step's gradients, last variables first; in one shot they are one bucket.
  void StartBuckets(const ProcessPtr& p, size_t until);
  // Each member's contribution to the step, by rank, laid out like the parameters' gradients.
  protocol::GradientTerms TermsOf(RoleProcess* p, std::vector<std::vector<float>>* memory) const;
  // Checks a member that has completed a step, applied or not.
  void CheckMember(const RoleProcess& p);

  std::vector<ElementRange> buckets_;           // ranges of a step's gradients, in the order of reduction
  uint64_t moment_words_ = 0;                   // words of the variable of moments, if the table has one
  std::map<uint64_t, Blackboard> blackboards_;  // by group
  std::map<uint64_t, GroupSteps> steps_;        // by group, for the checks
};

}  // namespace leat::sim
