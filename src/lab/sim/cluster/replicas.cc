// Forwards between servers for the replicas of their slices, with the faults of the data plane.
#include <algorithm>

#include "lab/sim/cluster/cluster_state.h"

namespace leat::sim {

namespace {

constexpr uint64_t kForwardBytes = 160, kForwardReplyBytes = 32;

}  // namespace

void Cluster::State::DoForwards(const ProcessPtr& p) {
  if (p->alive && p->server) DoAll(p, p->server->TakeForwards());
}

bool Cluster::State::DiesAt(ForwardPoint point, const ProcessPtr& primary, const ProcessPtr& replica) {
  std::optional<bool> kills_primary;
  const auto& planned = options.forward_death;
  const auto all_replicated = [this] {
    return coordinator->machine->status().replicated == slice_ranges.size();
  };
  if (planned && planned->point == point && now() >= planned->from && all_replicated()) {
    kills_primary = planned->primary;
    options.forward_death.reset();
  } else if (Chance(options.faults.deaths_in_forwards)) {
    kills_primary = rng.Chance(0.5);
  }
  if (!kills_primary) return false;
  // Not in the middle of an action.
  queue.After(Duration(0), [this, victim = *kills_primary ? primary : replica] {
    if (victim->alive) Kill(victim, true);
  });
  return *kills_primary != (point == ForwardPoint::kTaken);
}

void Cluster::State::FailForward(const ProcessPtr& p, Duration delay, NodeId to, uint64_t link) {
  Later(p, delay, [to, link](Server& server) {
    server.OnForwardFailed(to, link, Status(Code::kUnavailable, "connection lost"));
  });
}

void Cluster::State::Act(const ProcessPtr& p, const Forward& a) {
  ++result.messages;
  const uint64_t number = a.request->number, link = a.request->link;
  ForwardLink& its = forward_links[{p->slot, a.to}];
  if (its.link != link) its = {.link = link};
  const uint32_t slot = address_slots[AddressIdOf(a.address)].slot;
  const ProcessPtr to = slot == AddressSlot::kNobody ? nullptr : roles[slot];
  if (!to || !to->server || to->node != a.to) return FailForward(p, Between(1, 20), a.to, link);
  const uint32_t incarnation = p->incarnation;
  if (DiesAt(ForwardPoint::kApplied, p, to)) return;
  // Without an answer in time, the link is given up.
  ScheduleIn(p, options.forward_timeout, [this, p, incarnation, to_node = a.to, link, number] {
    const ForwardLink& now_its = forward_links[{p->slot, to_node}];
    if (now_its.link == link && now_its.acknowledged < number && Sound(p, incarnation))
      FailForward(p, Duration(0), to_node, link);
  });
  if (its.broken || IsCut(p->node, a.to) || IsCut(a.to, p->node) || Chance(options.faults.lost)) {
    // Later forwards do not arrive either, or are out of order.
    if (!its.broken && rng.Chance(0.5)) its.broken = true;
    if (rng.Chance(0.5)) FailForward(p, Between(1, 100), a.to, link);
    return;
  }
  uint64_t bytes = kForwardBytes;
  std::vector<std::vector<float>> gradients;
  for (const SliceRef& ref : a.request->push.slices) {
    if (a.request->push.disposition == Disposition::kGradient) bytes += slice_ranges[ref.slice.value].bytes();
  }
  for (const auto& part : a.gradients) gradients.emplace_back(part.begin(), part.end());
  Departure departure = Leaves(p.get(), to.get(), bytes, std::max(now(), p->busy_until), &its.there, 1);
  CrossBoth(*p, *to, bytes, &departure);
  const Time there = std::max(Comes(to.get(), bytes, departure.last, departure.route), departure.first);
  const auto arrive = [this, p, to, to_incarnation = to->incarnation, a, gradients] {
    if (to->incarnation == to_incarnation && to->server) ArriveForward(p, to, a, gradients);
  };
  ScheduleIn(to, std::max(there - now(), Duration(0)), arrive);
  if (Chance(options.faults.duplicated)) ScheduleIn(to, there - now() + Between(0, 500), arrive);
  DiesAt(ForwardPoint::kForwarded, p, to);
}

void Cluster::State::ArriveForward(const ProcessPtr& from, const ProcessPtr& to, const Forward& a,
                                   const std::vector<std::vector<float>>& gradients) {
  const Status good = to->server->BeginForward(*a.request);
  if (!good.ok()) return Violate(Invariant::kAccepted, "a server refused a forward: " + good.ToString());
  uint64_t bytes = kForwardBytes;
  for (const SliceRef& ref : a.request->push.slices) bytes += slice_ranges[ref.slice.value].bytes();
  to->busy_until = std::max(to->busy_until, now()) + Busy(to.get(), bytes);
  const std::vector<std::span<const float>> spans(gradients.begin(), gradients.end());
  const ForwardReply reply = to->server->TakeForward(*a.request, spans);
  ++result.forwards;
  TakeReady(to);
  MaybeSendHeartbeat(to);
  if (DiesAt(ForwardPoint::kTaken, from, to)) return;
  ForwardLink& its = forward_links[{from->slot, a.to}];
  if (its.link != reply.link || !from->alive) return;
  if (IsCut(from->node, a.to) || IsCut(a.to, from->node) || Chance(options.faults.lost)) {
    // A later answer says the same.
    if (rng.Chance(0.3)) FailForward(from, Between(1, 100), a.to, reply.link);
    return;
  }
  Departure departure = Leaves(to.get(), from.get(), kForwardReplyBytes, now(), &its.back, 1);
  CrossBoth(*to, *from, kForwardReplyBytes, &departure);
  ScheduleIn(from, departure.last - now(),
             [this, from, to, incarnation = from->incarnation, to_node = a.to, reply] {
               if (!Sound(from, incarnation)) return;
               ForwardLink& link = forward_links[{from->slot, to_node}];
               if (link.link == reply.link) link.acknowledged = std::max(link.acknowledged, reply.number);
               from->server->OnForwarded(to_node, reply);
               if (DiesAt(ForwardPoint::kAcknowledged, from, to)) return;
               TakeReady(from);
               MaybeSendHeartbeat(from);
             });
}

// Messages on their way may arrive all the same.
void Cluster::State::Act(const ProcessPtr&, const DropLink&) {}

}  // namespace leat::sim
