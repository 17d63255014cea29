#include "lab/sim/members/action_executor.h"

#include <type_traits>
#include <variant>

#include "lab/sim/allreduce/group_members.h"
#include "lab/sim/checkpoints/shard_files.h"
#include "lab/sim/hosts/compute_tasks.h"
#include "lab/sim/leases/split_inputs.h"
#include "lab/sim/members/role_processes.h"
#include "lab/sim/push/push_messages.h"
#include "lab/sim/slices/forward_messages.h"
#include "lab/sim/slices/move_transfers.h"

namespace leat::sim {

using namespace protocol;

namespace {

template <class A, class... As>
constexpr bool kOneOf = (std::is_same_v<A, As> || ...);

}  // namespace

template <class Actions>
void ActionExecutor::ExecuteAll(const ProcessPtr& p, const Actions& actions) {
  const auto execute = [&]<class A>(const A& action) {
    if constexpr (kOneOf<A, StopRole>) {
      members_.Execute(p, action);
    } else if constexpr (kOneOf<A, LoadSlices, SaveShard>) {
      shards_.Execute(p, action);
    } else if constexpr (kOneOf<A, PrepareSplit, DropSplit>) {
      inputs_.Execute(p, action);
    } else if constexpr (kOneOf<A, Compute>) {
      compute_.Execute(p, action);
    } else if constexpr (kOneOf<A, SendPush, Disconnect>) {
      pushes_.Execute(p, action);
    } else if constexpr (kOneOf<A, ConnectMove, SendMove, DropMove, AnswerMove>) {
      moves_.Execute(p, action);
    } else if constexpr (kOneOf<A, Forward, DropLink>) {
      forwards_.Execute(p, action);
    } else {
      groups_.Execute(p, action);
    }
  };
  const uint32_t incarnation = p->incarnation;
  for (const auto& action : actions) {
    if (!p->alive || p->incarnation != incarnation) return;
    std::visit(execute, action);
  }
}

void ActionExecutor::Execute(const ProcessPtr& p, const WorkerActions& actions) {
  ExecuteAll(p, actions);
  if (p->alive && p->joined && !p->heartbeat_in_flight && members_.Urgent(*p)) members_.MaybeSendHeartbeat(p);
}

void ActionExecutor::Execute(const ProcessPtr& p, const GroupMemberActions& actions) {
  ExecuteAll(p, actions);
  if (p->alive && p->joined && !p->heartbeat_in_flight && members_.Urgent(*p)) members_.MaybeSendHeartbeat(p);
}

void ActionExecutor::Execute(const ProcessPtr& p, const std::vector<ServerAction>& actions) {
  ExecuteAll(p, actions);
}

void ActionExecutor::Execute(const ProcessPtr& p, const std::vector<MoveAction>& actions) {
  ExecuteAll(p, actions);
}

void ActionExecutor::Execute(const ProcessPtr& p, const std::vector<ForwardAction>& actions) {
  ExecuteAll(p, actions);
}

}  // namespace leat::sim
