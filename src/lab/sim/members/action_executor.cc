#include "lab/sim/members/action_executor.h"

#include <type_traits>
#include <variant>

#include "lab/sim/cluster/concerns.h"

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
      all_.members.Execute(p, action);
    } else if constexpr (kOneOf<A, LoadSlices, SaveShard>) {
      all_.shards.Execute(p, action);
    } else if constexpr (kOneOf<A, PrepareSplit, DropSplit>) {
      all_.inputs.Execute(p, action);
    } else if constexpr (kOneOf<A, Compute>) {
      all_.compute.Execute(p, action);
    } else if constexpr (kOneOf<A, SendPush, Disconnect>) {
      all_.pushes.Execute(p, action);
    } else if constexpr (kOneOf<A, ConnectMove, SendMove, DropMove, AnswerMove>) {
      all_.moves.Execute(p, action);
    } else if constexpr (kOneOf<A, Forward, DropLink>) {
      all_.forwards.Execute(p, action);
    } else {
      all_.groups.Execute(p, action);
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
  if (p->alive && p->joined && !p->heartbeat_in_flight && all_.members.Urgent(*p))
    all_.members.MaybeSendHeartbeat(p);
}

void ActionExecutor::Execute(const ProcessPtr& p, const GroupMemberActions& actions) {
  ExecuteAll(p, actions);
  if (p->alive && p->joined && !p->heartbeat_in_flight && all_.members.Urgent(*p))
    all_.members.MaybeSendHeartbeat(p);
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
