#include "lab/sim/members/control_calls.h"

#include <algorithm>
#include <utility>

#include "lab/sim/members/role_process.h"
#include "lab/sim/succession/coordinator_processes.h"
#include "lab/sim/succession/standby_processes.h"

namespace leat::sim {

using namespace protocol;

namespace {

// A request that was given up may still arrive.
constexpr Duration kLateRequest = std::chrono::seconds(5);

}  // namespace

void ControlCalls::Call(const std::shared_ptr<Process>& from, ControlRequest request,
                        std::function<void(std::optional<ControlReply>)> answer) {
  ++world_.messages;
  const Duration least = world_.options.worker_link.latency;
  auto answered = std::make_shared<bool>(false);
  const uint32_t address = from->contact;
  const auto once = [this, from, address, answered, answer = std::move(answer)](
                        Duration delay, std::optional<ControlReply> reply) {
    world_.ScheduleIn(from, delay, [this, from, address, answered, answer, reply = std::move(reply)] {
      if (std::exchange(*answered, true)) return;
      const auto* refusal = reply ? std::get_if<Refusal>(&*reply) : nullptr;
      const bool standby = refusal != nullptr && refusal->status.code() == Code::kUnavailable;
      const uint32_t next =
          world_.OwnDirectories() ? (address + 1) % (1 + world_.options.coordinator_standbys) : 1 - address;
      if ((!reply || standby) && from->contact == address &&
          (world_.OwnDirectories() || coordinators_.At(next)))
        from->contact = next;
      answer(standby ? std::nullopt : reply);
    });
  };
  once(5 * world_.options.heartbeat_interval, std::nullopt);
  const auto cut = [this, from, address] {
    return world_.now() < std::max(from->cut_off_until, from->cut_from_until[address]);
  };
  if (world_.Chance(world_.options.faults.lost) || cut()) return;
  world_.queue.After(world_.Latency(least), [this, least, address, cut, request = std::move(request), once] {
    const auto c = coordinators_.At(address);
    if (const auto s = standbys_.At(address); s && s->alive) {
      return world_.ScheduleIn(s, Duration(0), [this, s, least, cut, request, once] {
        ControlReply reply = standbys_.Answer(s, request);
        if (!world_.Chance(world_.options.faults.lost) && !cut())
          once(world_.Latency(least), std::move(reply));
      });
    }
    if (!c || !c->alive) return once(world_.Latency(least), std::nullopt);
    world_.ScheduleIn(c, Duration(0),
                      [this, least, c, cut, request = ControlRequest(request), once]() mutable {
                        const uint64_t call = ++last_call_;
                        c->calls[call] = [this, least, cut, once](ControlReply reply) {
                          ++world_.messages;
                          const bool lost = world_.Chance(world_.options.faults.lost) || cut();
                          if (!lost) once(world_.Latency(least), std::move(reply));
                        };
                        coordinators_.OnRequest(c, call, std::move(request));
                      });
  });
}

// ---- commands

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
