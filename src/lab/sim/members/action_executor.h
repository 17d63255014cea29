// Hands each action of a process's machine to the concern that executes it.
//
// The actions of one input are executed in order, as long as the process is in the incarnation that wanted
// them.
#pragma once

#include <vector>

#include "lab/sim/members/role_process.h"
#include "protocol/allreduce/group_member.h"
#include "protocol/server/server.h"
#include "protocol/worker/worker.h"

namespace leat::sim {

class ActionExecutor : Concern {
 public:
  using Concern::Concern;

  // Actions of a worker, and of a member of a group. A heartbeat that has become urgent follows.
  void Execute(const ProcessPtr& p, const protocol::WorkerActions& actions);
  void Execute(const ProcessPtr& p, const protocol::GroupMemberActions& actions);
  // Actions of a server.
  void Execute(const ProcessPtr& p, const std::vector<protocol::ServerAction>& actions);
  void Execute(const ProcessPtr& p, const std::vector<protocol::MoveAction>& actions);
  void Execute(const ProcessPtr& p, const std::vector<protocol::ForwardAction>& actions);

 private:
  template <class Actions>
  void ExecuteAll(const ProcessPtr& p, const Actions& actions);
};

}  // namespace leat::sim
