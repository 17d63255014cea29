#include "run/roles/standby/standby.h"

#include "base/log.h"
#include "run/roles/coordinator_role.h"

namespace leat::roles {

Status RunStandby(StandbyOptions options) {
  options.coordinator.resume = true;
  LEAT_ASSIGN_OR_RETURN(const auto standby,
                        options.own_directory ? MakeNetworkStandby(&options) : MakeSharedStandby(&options));
  while (true) {
    const Status turn = standby->AwaitTurn();
    if (turn.code() == Code::kAborted) {
      spdlog::info("{}", turn.message());
      return {};
    }
    LEAT_RETURN_IF_ERROR(turn);
    const Status outcome = RunCoordinator(options.load(), options.coordinator);
    if (outcome.code() != Code::kStale) return outcome;
    spdlog::warn("{}; this one is a standby again", outcome.message());
  }
}

}  // namespace leat::roles
