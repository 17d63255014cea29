#include "lab/sim/push/server_processes.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "lab/sim/faults/fault_injector.h"
#include "lab/sim/members/role_processes.h"
#include "lab/sim/push/push_messages.h"
#include "lab/sim/slices/forward_messages.h"
#include "lab/sim/slices/move_transfers.h"
#include "lab/sim/slices/slice_check.h"
#include "lab/sim/subscribers/pull_messages.h"

namespace leat::sim {

using namespace protocol;

void ServerProcesses::Serve(const ProcessPtr& p, uint32_t m, Time there) {
  if (faults_.DiesAt(DeathPoint::kBeforeApply, ProcessPtr(p))) return pushes_.Bounce(m);
  Message& message = pushes_[m];
  const PushRequest& request = *message.request;
  p->bytes.in += message.bytes;
  p->busy_until = std::max(p->busy_until, there) + cores_.Busy(p.get(), message.bytes);
  std::vector<SliceRef> before;
  if (world_.options.check) before = VersionsOf(world_, *p);
  const Status begun = p->server->Begin(request);
  if (!begun.ok())
    return world_.Violate(Invariant::kJobAccepted, "a server refused a push: " + begun.ToString());
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
  if (world_.options.check && world_.options.replicas < 2) push_check_.CheckApplied(request, replies);
  const uint64_t ticket = uint64_t{message.serial} << 32 | m;
  auto reply = p->server->Finish(ticket, request, std::move(replies));
  if (faults_.DiesAt(DeathPoint::kApplied, ProcessPtr(p))) return pushes_.Bounce(m);
  if (reply) {
    Reply(p, m, std::move(*reply));
  } else {
    p->parked.emplace_back(ticket, world_.now());
  }
  if (world_.options.check && world_.options.replicas < 2) slice_check_.CheckWriter(*p, before);
  Advance(p);
  if (!p->heartbeat_in_flight && p->server->HeartbeatUrgent()) members_.MaybeSendHeartbeat(p);
}

void ServerProcesses::Advance(const ProcessPtr& p) {
  forwards_.Advance(p);
  moves_.Advance(p);
  for (Server::Ready& ready : p->server->TakeReady()) {
    if (pulls_.Answer(p, &ready)) continue;
    const auto at = std::ranges::find(p->parked, ready.ticket, &std::pair<uint64_t, Time>::first);
    LEAT_CHECK(at != p->parked.end());
    p->parked.erase(at);
    Reply(p, static_cast<uint32_t>(ready.ticket), std::move(ready.reply));
  }
}

void ServerProcesses::Reply(const ProcessPtr& p, uint32_t m, PushReply&& reply) {
  if (world_.options.check && world_.options.replicas > 1)
    slice_check_.CheckTold(*p, *pushes_[m].request, reply);
  pushes_.SendBack(p, m, std::move(reply));
}

void ServerProcesses::Later(const ProcessPtr& p, Duration delay, std::function<void(Server&)> input) {
  world_.ScheduleIn(p, delay, [this, p, incarnation = p->incarnation, input = std::move(input)] {
    if (incarnation != p->incarnation) return;
    input(*p->server);
    Advance(p);
    members_.MaybeSendHeartbeat(p);
  });
}

void ServerProcesses::ForgetParked(const ProcessPtr& server, uint32_t worker) {
  std::erase_if(server->parked, [&](const auto& parked) {
    const auto m = static_cast<uint32_t>(parked.first);
    if (pushes_[m].from != worker) return false;
    server->server->Forget(parked.first);
    pushes_.Free(m);
    return true;
  });
}

void ServerProcesses::ExpireParked(const ProcessPtr& server) {
  std::vector<uint64_t> expired;
  for (const auto& [ticket, since] : server->parked) {
    if (world_.now() - since < world_.options.parked_timeout) break;
    expired.push_back(ticket);
  }
  for (uint64_t ticket : expired) server->server->Expire(ticket);
  if (!expired.empty()) Advance(server);
}

void ServerProcesses::FreeParked(RoleProcess* server) {
  for (const auto& [ticket, since] : std::exchange(server->parked, {})) {
    pushes_.Free(static_cast<uint32_t>(ticket));
  }
}

void ServerProcesses::AbandonParked(RoleProcess* server) {
  for (const auto& [ticket, since] : std::exchange(server->parked, {})) {
    pushes_.Abandon(static_cast<uint32_t>(ticket));
  }
}

}  // namespace leat::sim
