// Invariants of all-reduce groups: members have the same state at the same step, and differ by at most one
// step (kAllReduceMembersAgree), and no member accepts a piece sent in another group (kAllReduceOneGroup).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "lab/sim/members/role_process.h"
#include "protocol/allreduce/group_member.h"

namespace leat::sim {

class GroupCheck : Concern {
 public:
  using Concern::Concern;

  void CheckPiece(const RoleProcess& p, const Piece& piece);
  // Checks a member that has completed a step, applied or not.
  void CheckMember(const RoleProcess& p);
  // All members have left the group.
  void Forget(uint64_t group) { groups_.erase(group); }

 private:
  struct Held {
    protocol::TrainingState::Header header;
    std::vector<float> memory;
  };
  struct GroupSteps {
    std::map<uint64_t, Held> held;  // by step: the state of the first member to reach it
    std::vector<uint64_t> reached;  // by rank: the last completed step; 0: none yet
  };

  std::map<uint64_t, GroupSteps> groups_;
};

}  // namespace leat::sim
