#include "lab/sim/slices/forward_messages.h"

#include <algorithm>
#include <optional>

#include "lab/sim/cluster/concerns.h"

namespace leat::sim {

using namespace protocol;

namespace {

constexpr uint64_t kForwardBytes = 160, kForwardReplyBytes = 32;

}  // namespace

void ForwardMessages::Advance(const ProcessPtr& p) {
  if (!p->alive || !p->server) return;
  if (const auto actions = p->server->TakeForwards(); !actions.empty()) all_.executor.Execute(p, actions);
}

bool ForwardMessages::DiesAt(ForwardPoint point, const ProcessPtr& primary, const ProcessPtr& replica) {
  std::optional<bool> kills_primary;
  const auto& planned = options_.forward_death;
  const auto all_replicated = [this] {
    return all_.coordinators.status().replicated == world_.slice_ranges.size();
  };
  if (planned && planned->point == point && now() >= planned->from && all_replicated()) {
    kills_primary = planned->primary;
    options_.forward_death.reset();
  } else if (Chance(options_.faults.deaths_in_forwards)) {
    kills_primary = rng_.Chance(0.5);
  }
  if (!kills_primary) return false;
  // Not in the middle of an action.
  queue_.After(Duration(0), [this, victim = *kills_primary ? primary : replica] {
    if (victim->alive) all_.faults.Kill(victim, true);
  });
  return *kills_primary != (point == ForwardPoint::kTaken);
}

bool ForwardMessages::Lost(NodeId a, NodeId b) {
  return all_.outages.IsCut(a, b) || all_.outages.IsCut(b, a) || Chance(options_.faults.lost);
}

void ForwardMessages::Fail(const ProcessPtr& p, Duration delay, NodeId to, uint64_t link) {
  all_.servers.Later(p, delay, [to, link](Server& server) {
    server.OnForwardFailed(to, link, Status(Code::kUnavailable, "connection lost"));
  });
}

void ForwardMessages::Execute(const ProcessPtr& p, const Forward& a) {
  ++world_.messages;
  const uint64_t number = a.request->number, link_number = a.request->link;
  ForwardLink& link = forward_links_[{p->slot, a.to}];
  if (link.link != link_number) link = {.link = link_number};
  const ProcessPtr to = processes_.At(processes_.AddressIdOf(a.address));
  if (!to || !to->server || to->node != a.to) return Fail(p, Between(1, 20), a.to, link_number);
  const uint32_t incarnation = p->incarnation;
  if (DiesAt(ForwardPoint::kApplied, p, to)) return;
  // Without an answer in time, the link is given up.
  ScheduleIn(p, options_.forward_timeout, [this, p, incarnation, to_node = a.to, link_number, number] {
    const ForwardLink& current = forward_links_[{p->slot, to_node}];
    if (current.link == link_number && current.acknowledged < number && SameServer(*p, incarnation))
      Fail(p, Duration(0), to_node, link_number);
  });
  if (link.broken || Lost(p->node, a.to)) {
    // Later forwards do not arrive either, or are out of order.
    if (!link.broken && rng_.Chance(0.5)) link.broken = true;
    if (rng_.Chance(0.5)) Fail(p, Between(1, 100), a.to, link_number);
    return;
  }
  uint64_t bytes = kForwardBytes;
  std::vector<std::vector<float>> gradients;
  for (const SliceRef& ref : a.request->push.slices) {
    if (a.request->push.disposition == Disposition::kGradient)
      bytes += world_.slice_ranges[ref.slice.value].bytes();
  }
  for (const auto& part : a.gradients) gradients.emplace_back(part.begin(), part.end());
  Departure departure =
      all_.links.Leaves(p.get(), to.get(), bytes, std::max(now(), p->busy_until), &link.there, 1);
  all_.links.CrossBoth(*p, *to, bytes, &departure);
  const Time there =
      std::max(all_.links.Comes(to.get(), bytes, departure.last, departure.route), departure.first);
  const auto arrive = [this, p, to, to_incarnation = to->incarnation, a, gradients] {
    if (to->incarnation == to_incarnation && to->server) Arrive(p, to, a, gradients);
  };
  ScheduleIn(to, std::max(there - now(), Duration(0)), arrive);
  if (Chance(options_.faults.duplicated)) ScheduleIn(to, there - now() + Between(0, 500), arrive);
  DiesAt(ForwardPoint::kForwarded, p, to);
}

void ForwardMessages::Arrive(const ProcessPtr& from, const ProcessPtr& to, const Forward& a,
                             const std::vector<std::vector<float>>& gradients) {
  const Status good = to->server->BeginForward(*a.request);
  if (!good.ok()) return Violate(Invariant::kJobAccepted, "a server refused a forward: " + good.ToString());
  uint64_t bytes = kForwardBytes;
  for (const SliceRef& ref : a.request->push.slices) bytes += world_.slice_ranges[ref.slice.value].bytes();
  to->busy_until = std::max(to->busy_until, now()) + all_.cores.Busy(to.get(), bytes);
  const std::vector<std::span<const float>> spans(gradients.begin(), gradients.end());
  const ForwardReply reply = to->server->TakeForward(*a.request, spans);
  ++forwards_;
  all_.servers.Advance(to);
  all_.members.MaybeSendHeartbeat(to);
  if (DiesAt(ForwardPoint::kTaken, from, to)) return;
  ForwardLink& link = forward_links_[{from->slot, a.to}];
  if (link.link != reply.link || !from->alive) return;
  if (Lost(from->node, a.to)) {
    // A later answer says the same.
    if (rng_.Chance(0.3)) Fail(from, Between(1, 100), a.to, reply.link);
    return;
  }
  Departure departure = all_.links.Leaves(to.get(), from.get(), kForwardReplyBytes, now(), &link.back, 1);
  all_.links.CrossBoth(*to, *from, kForwardReplyBytes, &departure);
  ScheduleIn(from, departure.last - now(),
             [this, from, to, incarnation = from->incarnation, to_node = a.to, reply] {
               if (!SameServer(*from, incarnation)) return;
               ForwardLink& current = forward_links_[{from->slot, to_node}];
               if (current.link == reply.link)
                 current.acknowledged = std::max(current.acknowledged, reply.number);
               from->server->OnForwarded(to_node, reply);
               if (DiesAt(ForwardPoint::kAcknowledged, from, to)) return;
               all_.servers.Advance(from);
               all_.members.MaybeSendHeartbeat(from);
             });
}

// Messages on their way may arrive all the same.
void ForwardMessages::Execute(const ProcessPtr&, const DropLink&) {}

}  // namespace leat::sim
