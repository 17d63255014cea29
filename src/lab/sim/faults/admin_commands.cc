#include "lab/sim/faults/admin_commands.h"

#include <utility>

#include "lab/sim/members/role_process.h"
#include "lab/sim/succession/coordinator_processes.h"

namespace leat::sim {

using namespace protocol;

namespace {

// A request that was given up may still arrive.
constexpr Duration kLateRequest = std::chrono::seconds(5);

}  // namespace

void AdminCommands::Tell(const AdminRequest& command) {
  calls_.Call(Admin(), command, [](const auto&) {});
}

void AdminCommands::Repeat(AdminRequest::Kind kind, std::function<void()> then) {
  calls_.Call(Admin(), AdminRequest{.kind = kind},
              [this, kind, then = std::move(then)](const std::optional<ControlReply>& reply) {
                if (reply) return then();  // also if the job is ending
                world_.queue.After(std::chrono::milliseconds(100),
                                   [this, kind, then] { Repeat(kind, then); });
              });
}

void AdminCommands::PauseJob(Duration lasts) {
  ++job_pauses_;
  Repeat(AdminRequest::Kind::kPause, [this, lasts] {
    for (const Duration after : {lasts, lasts + kLateRequest})
      world_.queue.After(after, [this] { Repeat(AdminRequest::Kind::kContinue, [] {}); });
  });
}

std::shared_ptr<Process> AdminCommands::Admin() const {
  auto admin = std::make_shared<Process>();
  admin->contact = coordinators_.newest()->address;
  return admin;
}

}  // namespace leat::sim
