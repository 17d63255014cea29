#include "lab/sim/members/control_calls.h"

#include <algorithm>
#include <utility>

#include "lab/sim/cluster/concerns.h"

namespace leat::sim {

using namespace protocol;

namespace {

// A request that was given up may still arrive.
constexpr Duration kLateRequest = std::chrono::seconds(5);

}  // namespace

void ControlCalls::Call(const std::shared_ptr<Process>& from, ControlRequest request,
                        std::function<void(std::optional<ControlReply>)> answer) {
  ++result_.messages;
  const Duration least = options_.worker_link.latency;
  auto answered = std::make_shared<bool>(false);
  const uint32_t address = from->contact;
  const auto once = [this, from, address, answered, answer = std::move(answer)](
                        Duration delay, std::optional<ControlReply> reply) {
    ScheduleIn(from, delay, [this, from, address, answered, answer, reply = std::move(reply)] {
      if (std::exchange(*answered, true)) return;
      const auto* refusal = reply ? std::get_if<Refusal>(&*reply) : nullptr;
      const bool standby = refusal != nullptr && refusal->status.code() == Code::kUnavailable;
      const uint32_t next =
          world_.OwnDirectories() ? (address + 1) % (1 + options_.coordinator_standbys) : 1 - address;
      if ((!reply || standby) && from->contact == address &&
          (world_.OwnDirectories() || all_.coordinators.At(next)))
        from->contact = next;
      answer(standby ? std::nullopt : reply);
    });
  };
  once(5 * options_.heartbeat_interval, std::nullopt);
  const auto cut = [this, from, address] {
    return now() < std::max(from->cut_off_until, from->cut_from_until[address]);
  };
  if (Chance(options_.faults.lost) || cut()) return;
  queue_.After(Latency(least), [this, least, address, cut, request = std::move(request), once] {
    const auto c = all_.coordinators.At(address);
    if (const auto s = all_.hosts.StandbyAt(address); s && s->alive) {
      return ScheduleIn(s, Duration(0), [this, s, least, cut, request, once] {
        ControlReply reply = all_.hosts.Answer(s, request);
        if (!Chance(options_.faults.lost) && !cut()) once(Latency(least), std::move(reply));
      });
    }
    if (!c || !c->alive) return once(Latency(least), std::nullopt);
    ScheduleIn(c, Duration(0), [this, least, c, cut, request = ControlRequest(request), once]() mutable {
      const uint64_t call = ++last_call_;
      c->calls[call] = [this, least, cut, once](ControlReply reply) {
        ++result_.messages;
        const bool lost = Chance(options_.faults.lost) || cut();
        if (!lost) once(Latency(least), std::move(reply));
      };
      all_.coordinators.OnRequest(c, call, std::move(request));
    });
  });
}

// ---- commands

void ControlCalls::Tell(const AdminRequest& command) {
  Call(Admin(), command, [](const auto&) {});
}

void ControlCalls::Repeat(AdminRequest::Kind kind, std::function<void()> then) {
  Call(Admin(), AdminRequest{.kind = kind},
       [this, kind, then = std::move(then)](const std::optional<ControlReply>& reply) {
         if (reply) return then();  // also if the job is ending
         queue_.After(std::chrono::milliseconds(100), [this, kind, then] { Repeat(kind, then); });
       });
}

void ControlCalls::PauseJob(Duration lasts) {
  ++result_.job_pauses;
  Repeat(AdminRequest::Kind::kPause, [this, lasts] {
    for (const Duration after : {lasts, lasts + kLateRequest})
      queue_.After(after, [this] { Repeat(AdminRequest::Kind::kContinue, [] {}); });
  });
}

std::shared_ptr<Process> ControlCalls::Admin() const {
  auto admin = std::make_shared<Process>();
  admin->contact = all_.coordinators.newest()->address;
  return admin;
}

}  // namespace leat::sim
