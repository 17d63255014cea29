#include "lab/sim/slices/server_processes.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "lab/sim/cluster/concerns.h"

namespace leat::sim {

using namespace protocol;

namespace {

constexpr uint64_t kForwardBytes = 160, kForwardReplyBytes = 32;

uint64_t SizeOf(const std::vector<MovedSlice>& slices) {
  uint64_t bytes = 0;
  for (const MovedSlice& moved : slices)
    bytes += moved.slice->elements * (1 + moved.slice->slots) * sizeof(float);
  return bytes;
}

// As they are at this moment: a server that gives a move up changes the memory.
std::vector<MovedSlice> CopyOfMoved(const std::vector<MovedSlice>& slices) {
  std::vector<MovedSlice> copies = slices;
  for (MovedSlice& moved : copies) moved.slice = std::make_shared<Slice>(CopyOf(*moved.slice));
  return copies;
}

}  // namespace

void ServerProcesses::Serve(const ProcessPtr& p, uint32_t m, Time there) {
  if (all_.faults.DiesAt(DeathPoint::kBeforeApply, ProcessPtr(p))) return all_.pushes.Bounce(m);
  Message& message = all_.pushes[m];
  const PushRequest& request = *message.request;
  p->bytes.in += message.bytes;
  p->busy_until = std::max(p->busy_until, there) + all_.machines.Busy(p.get(), message.bytes);
  std::vector<SliceRef> before;
  if (options_.check) before = all_.slice_check.VersionsOf(*p);
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
    if (reply.outcome == SliceOutcome::kDuplicate) ++result_.duplicates;
    if (reply.outcome == SliceOutcome::kLate) ++result_.late;
  }
  if (options_.check && options_.replicas < 2) all_.slice_check.CheckApplied(request, replies);
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
  if (p->alive && p->server) all_.members.ExecuteAll(p, p->server->TakeForwards());
  if (p->alive && p->server) all_.members.ExecuteAll(p, p->server->TakeMoveActions());
  for (Server::Ready& ready : p->server->TakeReady()) {
    if (all_.subscribers.AnswerPull(p, &ready)) continue;
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

void ServerProcesses::EndParked(RoleProcess* server, void (PushMessages::*end)(uint32_t)) {
  for (const auto& [ticket, since] : std::exchange(server->parked, {})) {
    (all_.pushes.*end)(static_cast<uint32_t>(ticket));
  }
}

// ---- forwards

bool ServerProcesses::DiesAt(ForwardPoint point, const ProcessPtr& primary, const ProcessPtr& replica) {
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

bool ServerProcesses::Lost(NodeId a, NodeId b) {
  return all_.faults.IsCut(a, b) || all_.faults.IsCut(b, a) || Chance(options_.faults.lost);
}

void ServerProcesses::FailForward(const ProcessPtr& p, Duration delay, NodeId to, uint64_t link) {
  Later(p, delay, [to, link](Server& server) {
    server.OnForwardFailed(to, link, Status(Code::kUnavailable, "connection lost"));
  });
}

void ServerProcesses::Execute(const ProcessPtr& p, const Forward& a) {
  ++result_.messages;
  const uint64_t number = a.request->number, link_number = a.request->link;
  ForwardLink& link = forward_links_[{p->slot, a.to}];
  if (link.link != link_number) link = {.link = link_number};
  const ProcessPtr to = processes_.At(processes_.AddressIdOf(a.address));
  if (!to || !to->server || to->node != a.to) return FailForward(p, Between(1, 20), a.to, link_number);
  const uint32_t incarnation = p->incarnation;
  if (DiesAt(ForwardPoint::kApplied, p, to)) return;
  // Without an answer in time, the link is given up.
  ScheduleIn(p, options_.forward_timeout, [this, p, incarnation, to_node = a.to, link_number, number] {
    const ForwardLink& current = forward_links_[{p->slot, to_node}];
    if (current.link == link_number && current.acknowledged < number && SameServer(*p, incarnation))
      FailForward(p, Duration(0), to_node, link_number);
  });
  if (link.broken || Lost(p->node, a.to)) {
    // Later forwards do not arrive either, or are out of order.
    if (!link.broken && rng_.Chance(0.5)) link.broken = true;
    if (rng_.Chance(0.5)) FailForward(p, Between(1, 100), a.to, link_number);
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
      all_.machines.Leaves(p.get(), to.get(), bytes, std::max(now(), p->busy_until), &link.there, 1);
  all_.machines.CrossBoth(*p, *to, bytes, &departure);
  const Time there =
      std::max(all_.machines.Comes(to.get(), bytes, departure.last, departure.route), departure.first);
  const auto arrive = [this, p, to, to_incarnation = to->incarnation, a, gradients] {
    if (to->incarnation == to_incarnation && to->server) ArriveForward(p, to, a, gradients);
  };
  ScheduleIn(to, std::max(there - now(), Duration(0)), arrive);
  if (Chance(options_.faults.duplicated)) ScheduleIn(to, there - now() + Between(0, 500), arrive);
  DiesAt(ForwardPoint::kForwarded, p, to);
}

void ServerProcesses::ArriveForward(const ProcessPtr& from, const ProcessPtr& to, const Forward& a,
                                    const std::vector<std::vector<float>>& gradients) {
  const Status good = to->server->BeginForward(*a.request);
  if (!good.ok()) return Violate(Invariant::kJobAccepted, "a server refused a forward: " + good.ToString());
  uint64_t bytes = kForwardBytes;
  for (const SliceRef& ref : a.request->push.slices) bytes += world_.slice_ranges[ref.slice.value].bytes();
  to->busy_until = std::max(to->busy_until, now()) + all_.machines.Busy(to.get(), bytes);
  const std::vector<std::span<const float>> spans(gradients.begin(), gradients.end());
  const ForwardReply reply = to->server->TakeForward(*a.request, spans);
  ++result_.forwards;
  Advance(to);
  all_.members.MaybeSendHeartbeat(to);
  if (DiesAt(ForwardPoint::kTaken, from, to)) return;
  ForwardLink& link = forward_links_[{from->slot, a.to}];
  if (link.link != reply.link || !from->alive) return;
  if (Lost(from->node, a.to)) {
    // A later answer says the same.
    if (rng_.Chance(0.3)) FailForward(from, Between(1, 100), a.to, reply.link);
    return;
  }
  Departure departure = all_.machines.Leaves(to.get(), from.get(), kForwardReplyBytes, now(), &link.back, 1);
  all_.machines.CrossBoth(*to, *from, kForwardReplyBytes, &departure);
  ScheduleIn(from, departure.last - now(),
             [this, from, to, incarnation = from->incarnation, to_node = a.to, reply] {
               if (!SameServer(*from, incarnation)) return;
               ForwardLink& current = forward_links_[{from->slot, to_node}];
               if (current.link == reply.link)
                 current.acknowledged = std::max(current.acknowledged, reply.number);
               from->server->OnForwarded(to_node, reply);
               if (DiesAt(ForwardPoint::kAcknowledged, from, to)) return;
               Advance(from);
               all_.members.MaybeSendHeartbeat(from);
             });
}

// ---- moves

void ServerProcesses::AtPoint(MovePoint point, const ProcessPtr& from, uint32_t to_address) {
  std::optional<MovePart> who;
  if (options_.move_death && options_.move_death->point == point) {
    who = options_.move_death->who;
    options_.move_death.reset();
  } else if (Chance(options_.faults.deaths_in_moves)) {
    who = static_cast<MovePart>(rng_.Below(3));
  }
  if (!who) return;
  // Not in the middle of an action.
  queue_.After(Duration(0), [this, who = *who, from, to_address] {
    if (who == MovePart::kFrom && from->alive) return all_.faults.Kill(from, true);
    const ProcessPtr to = processes_.At(to_address);
    if (who == MovePart::kTo && to) return all_.faults.Kill(to, true);
    if (who == MovePart::kCoordinator && all_.coordinators.newest()->active())
      all_.faults.TroubleCoordinator();
  });
}

void ServerProcesses::Execute(const ProcessPtr& p, const ConnectMove& a) {
  const uint32_t address = p->move_target = processes_.AddressIdOf(a.address);
  AtPoint(MovePoint::kOrdered, p, address);
  const bool lost =
      Chance(options_.faults.lost) || all_.faults.Isolated(p.get(), processes_.At(address).get());
  const Duration takes =
      Latency(p->host->latency) + Latency(p->host->latency) + (lost ? Between(50, 300) : Duration(0));
  Later(p, takes, [this, lost, address, id = a.id](Server& server) {
    if (lost || !processes_.At(address)) {
      server.OnMoveFailed(id, Status(Code::kUnavailable, "cannot connect"));
    } else {
      server.OnMoveConnected(id);
    }
  });
}

void ServerProcesses::Execute(const ProcessPtr& p, const SendMove& a) {
  ++result_.messages;
  const uint32_t address = p->move_target;
  AtPoint(MovePoint::kFrozen, p, address);
  const uint64_t bytes = SizeOf(a.slices);
  result_.moved_bytes += bytes;
  const uint64_t id = a.id;
  const auto fail = [id](Server& server) {
    server.OnMoveFailed(id, Status(Code::kUnavailable, "connection lost"));
  };
  const auto send = [&](Time* arrives) {
    const RoleProcess* const to = processes_.At(address).get();
    Departure departure = all_.machines.Leaves(p.get(), to, bytes, now(), nullptr, 1);
    if (to != nullptr) all_.machines.CrossBoth(*p, *to, bytes, &departure);
    *arrives = departure.last;
    queue_.After(departure.first - now(), [this, p, address, id, bytes, last = departure.last,
                                           route = departure.route,
                                           slices = CopyOfMoved(a.slices)]() mutable {
      const ProcessPtr receiver = processes_.At(address);
      if (!receiver) return;
      const Time there = all_.machines.Comes(receiver.get(), bytes, last, route);
      ScheduleIn(receiver, std::max(there - now(), Duration(0)),
                 [this, p, address, id, slices = std::move(slices)] { ArriveMove(address, p, id, slices); });
    });
  };
  Time arrives{0};
  if (Chance(options_.faults.duplicated)) send(&arrives);
  if (Chance(options_.faults.lost)) {
    // Without a broken connection, only the coordinator finds out.
    if (!rng_.Chance(0.3)) Later(p, Between(1, 100), fail);
    return;
  }
  send(&arrives);
  if (!processes_.At(address)) Later(p, arrives - now(), fail);
}

void ServerProcesses::ArriveMove(uint32_t address, const ProcessPtr& from, uint64_t id,
                                 const std::vector<MovedSlice>& slices) {
  const ProcessPtr to = processes_.At(address);
  if (!to || all_.faults.Isolated(from.get(), to.get())) return;
  senders_[{to->slot, id}] = from;
  const Status status = to->server->OnMoveArrived(id, CopyOfMoved(slices));
  if (!status.ok() && from->alive && from->server) {
    Later(from, Latency(to->host->latency),
          [id, status](Server& server) { server.OnMoveFailed(id, status); });
  }
  AtPoint(MovePoint::kArrived, from, address);
  Advance(to);
  all_.members.MaybeSendHeartbeat(to);
}

void ServerProcesses::Execute(const ProcessPtr& p, const AnswerMove& a) {
  if (a.status.ok()) ++result_.moves;
  const auto sender = senders_.extract({p->slot, a.id});
  if (!sender || !sender.mapped()->alive || !sender.mapped()->server) return;
  const ProcessPtr from = sender.mapped();
  if (a.status.ok()) AtPoint(MovePoint::kMade, from, p->address_id);
  if (all_.faults.Isolated(from.get(), p.get()) || Chance(options_.faults.lost)) return;
  Later(from, Latency(p->host->latency),
        [this, from, to = p->address_id, id = a.id, status = a.status](Server& server) {
          if (!status.ok()) return server.OnMoveFailed(id, status);
          server.OnMoveTaken(id);
          AtPoint(MovePoint::kReleased, from, to);
        });
}

// ---- invariants

void SliceCheck::OnLoaded(SliceId slice, Incarnation incarnation, std::vector<PartitionLedger> ledger) {
  applied_[{slice, incarnation}].loaded = std::move(ledger);
}

void SliceCheck::CheckApplied(const PushRequest& request, const std::vector<SliceReply>& replies) {
  if (options_.strategy.stepped()) return;
  for (const SliceReply& reply : replies) {
    if (reply.outcome != SliceOutcome::kApplied) continue;
    Applied& of_slice = applied_[{reply.slice, reply.incarnation}];
    const Cut& cut = request.cut;
    const bool before = !of_slice.loaded.empty() && HeldRuns(of_slice.loaded, cut).Has(request.run);
    const bool fresh = of_slice.runs.insert({cut.partition, cut.begin, request.run}).second;
    if (before || !fresh) {
      Violate(Invariant::kPushAppliedOnce, NameOf(reply.slice) + ", partition " +
                                               std::to_string(cut.partition) + " " + NameOf(cut.begin) +
                                               " run " + std::to_string(request.run));
      result_.violation->twice = std::max(result_.violation->twice, cut.EventsOf(request.run));
      return;
    }
  }
}

std::vector<SliceRef> SliceCheck::VersionsOf(const RoleProcess& server) const {
  std::vector<SliceRef> all;
  for (uint32_t i = 0; i < world_.slice_ranges.size(); ++i) {
    if (const auto at = server.server->VersionOf(SliceId(i))) all.push_back(*at);
  }
  return all;
}

void SliceCheck::CheckWriter(const RoleProcess& p, const std::vector<SliceRef>& before) {
  // A push neither adds slices nor removes them.
  const std::vector<SliceRef> after = VersionsOf(p);
  for (size_t i = 0; i < before.size(); ++i) {
    if (after[i].version == before[i].version) continue;
    const auto [reached, fresh] =
        versions_.try_emplace({after[i].slice, after[i].incarnation}, after[i].version);
    if (!fresh && reached->second != before[i].version) {
      return Violate(Invariant::kSlicesOneWriter, NameOf(after[i].slice) + " is updated from version " +
                                                      std::to_string(before[i].version) + " on node " +
                                                      leat::ToString(p.node) + ", and is at version " +
                                                      std::to_string(reached->second));
    }
    reached->second = after[i].version;
  }
}

SliceCheck::Before SliceCheck::SlicesOf(const RoleProcess& p) const {
  Before before{VersionsOf(p), std::vector<bool>(world_.slice_ranges.size())};
  for (uint32_t i = 0; i < before.replicas.size(); ++i) before.replicas[i] = p.server->HasReplica(SliceId(i));
  return before;
}

void SliceCheck::CheckTold(const RoleProcess& p, const PushRequest& request, const PushReply& reply) {
  if (reply.evicted || request.disposition == Disposition::kPull) return;
  CheckApplied(request, reply.slices);
  for (const SliceReply& slice : reply.slices) {
    if (slice.outcome != SliceOutcome::kApplied && slice.outcome != SliceOutcome::kDuplicate) continue;
    told_[{slice.slice, slice.incarnation}].push_back({request.cut, request.run});
    // It may have been replaced without knowing it.
    for (const ProcessPtr& other : processes_.processes()) {
      if (!other || !other->server || other.get() == &p) continue;
      const auto at = other->server->VersionOf(slice.slice);
      if (!at || at->incarnation != slice.incarnation) continue;
      if (other->server->HasArrived({slice.slice, slice.incarnation})) continue;
      const View view = all_.coordinators.status().view;
      if (slice.slice.value >= view.slices.size() || view.slices[slice.slice.value].server != other->node)
        continue;
      const Slice* const held = other->server->Find(slice.slice);
      if (HeldRuns(held->ledger.partitions(), request.cut).Has(request.run)) continue;
      return Violate(Invariant::kSlicesTold, NameOf(slice.slice) + ": node " + leat::ToString(p.node) +
                                                 " says that it has a run from " + NameOf(request.cut.begin) +
                                                 ", which node " + leat::ToString(other->node) + " lacks");
    }
  }
}

void SliceCheck::CheckTakenOver(const RoleProcess& p, const Before& before) {
  for (const SliceRef& held : VersionsOf(p)) {
    const bool had = std::ranges::any_of(before.versions, [&](const SliceRef& ref) {
      return ref.slice == held.slice && ref.incarnation == held.incarnation;
    });
    if (had) continue;
    if (before.replicas[held.slice.value]) ++result_.promotions;
    const auto runs = told_.find({held.slice, held.incarnation});
    if (runs == told_.end()) continue;
    const Slice* const slice = p.server->Find(held.slice);
    for (const auto& [cut, run] : runs->second) {
      if (HeldRuns(slice->ledger.partitions(), cut).Has(run)) continue;
      return Violate(Invariant::kSlicesTold, NameOf(held.slice) + " on node " + leat::ToString(p.node) +
                                                 " lacks run " + std::to_string(run) + " of partition " +
                                                 std::to_string(cut.partition) + " from " +
                                                 NameOf(cut.begin));
    }
  }
}

}  // namespace leat::sim
