// Slices that move between servers: connections, transfers and answers, with the faults of the data plane.
//
// A transfer carries a copy of the slices as they were when they were sent. A process that takes part may die
// at each point of a move.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "lab/sim/members/role_process.h"
#include "protocol/actions.h"

namespace leat::sim {

class MoveTransfers : Concern {
 public:
  using Concern::Concern;

  // Executes what a server's machine wants of its moves.
  void Advance(const ProcessPtr& p);
  void Execute(const ProcessPtr& p, const protocol::ConnectMove& a);
  void Execute(const ProcessPtr& p, const protocol::SendMove& a);
  void Execute(const ProcessPtr& p, const protocol::DropMove& a);
  void Execute(const ProcessPtr& p, const protocol::AnswerMove& a);

  uint64_t moves() const { return moves_; }
  uint64_t moved_bytes() const { return moved_bytes_; }

 private:
  void Arrive(uint32_t address_id, const ProcessPtr& from, uint64_t id,
              const std::vector<protocol::MovedSlice>& slices);
  // A process that takes part may die here.
  void AtPoint(MovePoint point, const ProcessPtr& from, uint32_t to_address);
  void Die(MovePart who, const ProcessPtr& from, uint32_t to_address);

  std::map<std::pair<uint32_t, uint64_t>, ProcessPtr> senders_;  // by the receiver's slot and move
  uint64_t moves_ = 0;                                           // completed
  uint64_t moved_bytes_ = 0;                                     // sent, whether moves were made or not
};

}  // namespace leat::sim
