#include "lab/sim/allreduce/group_check.h"

#include "lab/sim/cluster/concerns.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace leat::sim {

using namespace protocol;

void GroupCheck::CheckPiece(const RoleProcess& p, const Piece& piece) {
  const uint64_t group = p.group_member->in.group;
  if (piece.group == group) return;
  Violate(Invariant::kAllReduceOneGroup, "a member of group " + std::to_string(group) +
                                             " has taken a piece of bucket " + std::to_string(piece.bucket) +
                                             " of group " + std::to_string(piece.group));
}

void GroupCheck::CheckMember(const RoleProcess& p) {
  const Membership& in = p.group_member->in;
  if (in.group == 0) return;
  GroupSteps& group = groups_[in.group];
  const TrainingState& state = p.group_member->machine->state();
  const uint64_t step = state.header().step;
  auto& reached = group.reached;
  reached.resize(in.members.size(), 0);
  reached[in.rank] = step;
  for (uint32_t rank = 0; rank < reached.size(); ++rank) {
    if (reached[rank] == 0 || std::max(reached[rank], step) - std::min(reached[rank], step) <= 1) continue;
    return Violate(Invariant::kAllReduceMembersAgree,
                   "rank " + std::to_string(in.rank) + " holds step " + std::to_string(step) + ", rank " +
                       std::to_string(rank) + " step " + std::to_string(reached[rank]));
  }
  Held held{state.header(), {}};
  for (const auto& memory : state.Memory())
    held.memory.insert(held.memory.end(), memory.begin(), memory.end());
  auto& all = group.held;
  all.erase(all.begin(), all.lower_bound(step - std::min<uint64_t>(step, 1)));
  const auto [first, fresh] = all.try_emplace(step, std::move(held));
  if (fresh) return;
  const Held& other = first->second;
  if (!(other.header == held.header) || other.memory.size() != held.memory.size() ||
      std::memcmp(other.memory.data(), held.memory.data(), held.memory.size() * sizeof(float)) != 0) {
    Violate(Invariant::kAllReduceMembersAgree,
            "rank " + std::to_string(in.rank) + " of group " + std::to_string(in.group) +
                " holds another state than others at step " + std::to_string(step));
  }
}

}  // namespace leat::sim
