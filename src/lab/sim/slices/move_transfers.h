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

class ActionExecutor;
class CoordinatorProcesses;
class FaultInjector;
class Outages;
class RoleProcesses;
class ServerProcesses;

class MoveTransfers {
 public:
  MoveTransfers(World& world, ProcessTable& processes, HostLinks& links, Outages& outages,
                FaultInjector& faults, ServerProcesses& servers, RoleProcesses& members,
                ActionExecutor& executor, CoordinatorProcesses& coordinators)
      : world_(world),
        processes_(processes),
        links_(links),
        outages_(outages),
        faults_(faults),
        servers_(servers),
        members_(members),
        executor_(executor),
        coordinators_(coordinators) {}

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

  World& world_;
  ProcessTable& processes_;
  HostLinks& links_;
  Outages& outages_;
  FaultInjector& faults_;
  ServerProcesses& servers_;
  RoleProcesses& members_;
  ActionExecutor& executor_;
  CoordinatorProcesses& coordinators_;
  std::map<std::pair<uint32_t, uint64_t>, ProcessPtr> senders_;  // by the receiver's slot and move
  uint64_t moves_ = 0;                                           // completed
  uint64_t moved_bytes_ = 0;                                     // sent, whether moves were made or not
};

}  // namespace leat::sim
