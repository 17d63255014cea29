#include "lab/sim/push/server_processes.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "lab/sim/cluster/concerns.h"

namespace leat::sim {

using namespace protocol;

void ServerProcesses::Serve(const ProcessPtr& p, uint32_t m, Time there) {
  if (all_.faults.DiesAt(DeathPoint::kBeforeApply, ProcessPtr(p))) return all_.pushes.Bounce(m);
  Message& message = all_.pushes[m];
  const PushRequest& request = *message.request;
  p->bytes.in += message.bytes;
  p->busy_until = std::max(p->busy_until, there) + all_.cores.Busy(p.get(), message.bytes);
  std::vector<SliceRef> before;
  if (options_.check) before = VersionsOf(world_, *p);
  const Status begun = p->server->Begin(request);
  if (!begun.ok()) return Violate(Invariant::kJobAccepted, "a server refused a push: " + begun.ToString());
  std::vector<SliceReply> replies = std::move(message.reply.slices);  // reuses the memory
  std::vector<std::span<const float>> gradients;
  if (!world_.modelled && message.gradient) {
    for (const SliceRef& ref : request.slices) {
      const ElementRange& range = world_.slice_ranges[ref.slice.value];
      gradients.push_back(std::span(*message.gradient).subspan(range.begin, range.elements()));
    }
  }
  p->server->ApplyAll(request, gradients, &replies);
  for (const SliceReply& reply : replies) {
    if (reply.outcome == SliceOutcome::kDuplicate) ++counts_.duplicates;
    if (reply.outcome == SliceOutcome::kLate) ++counts_.late;
  }
  if (options_.check && options_.replicas < 2) all_.push_check.CheckApplied(request, replies);
  const uint64_t ticket = uint64_t{message.serial} << 32 | m;
  auto reply = p->server->Finish(ticket, request, std::move(replies));
  if (all_.faults.DiesAt(DeathPoint::kApplied, ProcessPtr(p))) return all_.pushes.Bounce(m);
  if (reply) {
    all_.pushes.SendBack(p, m, std::move(*reply));
  } else {
    p->parked.emplace_back(ticket, now());
  }
  if (options_.check && options_.replicas < 2) all_.slice_check.CheckWriter(*p, before);
  Advance(p);
  if (!p->heartbeat_in_flight && p->server->HeartbeatUrgent()) all_.members.MaybeSendHeartbeat(p);
}

void ServerProcesses::Advance(const ProcessPtr& p) {
  all_.forwards.Advance(p);
  all_.moves.Advance(p);
  for (Server::Ready& ready : p->server->TakeReady()) {
    if (all_.pulls.Answer(p, &ready)) continue;
    const auto at = std::ranges::find(p->parked, ready.ticket, &std::pair<uint64_t, Time>::first);
    LEAT_CHECK(at != p->parked.end());
    p->parked.erase(at);
    all_.pushes.SendBack(p, static_cast<uint32_t>(ready.ticket), std::move(ready.reply));
  }
}

void ServerProcesses::Later(const ProcessPtr& p, Duration delay, std::function<void(Server&)> input) {
  ScheduleIn(p, delay, [this, p, incarnation = p->incarnation, input = std::move(input)] {
    if (incarnation != p->incarnation) return;
    input(*p->server);
    Advance(p);
    all_.members.MaybeSendHeartbeat(p);
  });
}

void ServerProcesses::ForgetParked(const ProcessPtr& server, uint32_t worker) {
  std::erase_if(server->parked, [&](const auto& parked) {
    const auto m = static_cast<uint32_t>(parked.first);
    if (all_.pushes[m].from != worker) return false;
    server->server->Forget(parked.first);
    all_.pushes.Free(m);
    return true;
  });
}

void ServerProcesses::ExpireParked(const ProcessPtr& server) {
  std::vector<uint64_t> expired;
  for (const auto& [ticket, since] : server->parked) {
    if (now() - since < options_.parked_timeout) break;
    expired.push_back(ticket);
  }
  for (uint64_t ticket : expired) server->server->Expire(ticket);
  if (!expired.empty()) Advance(server);
}

void ServerProcesses::FreeParked(RoleProcess* server) {
  for (const auto& [ticket, since] : std::exchange(server->parked, {})) {
    all_.pushes.Free(static_cast<uint32_t>(ticket));
  }
}

void ServerProcesses::AbandonParked(RoleProcess* server) {
  for (const auto& [ticket, since] : std::exchange(server->parked, {})) {
    all_.pushes.Abandon(static_cast<uint32_t>(ticket));
  }
}

}  // namespace leat::sim
