// Messages in transit.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "lab/sim/cluster/cluster_state.h"

namespace leat::sim {

namespace {

// Approximate sizes of wire/'s headers.
constexpr uint64_t kRequestBytes = 160, kReplyBytes = 64, kSliceBytes = 24;

}  // namespace

Duration Cluster::State::Latency(Duration least, double share) {
  if (Chance(share * options.faults.slow)) return Between(1, 3000);
  if (options.jitter > 0) return least + FromSeconds(Seconds(least) * options.jitter * rng.Uniform());
  return least;
}

// ---- the control plane

void Cluster::State::Call(const std::shared_ptr<Process>& from, ControlRequest request,
                          std::function<void(std::optional<ControlReply>)> answer) {
  ++result.messages;
  const Duration least = options.worker_link.latency;
  auto answered = std::make_shared<bool>(false);
  const uint32_t address = from->calls;
  const auto once = [this, from, address, answered, answer = std::move(answer)](
                        Duration delay, std::optional<ControlReply> reply) {
    ScheduleIn(from, delay, [this, from, address, answered, answer, reply = std::move(reply)] {
      if (std::exchange(*answered, true)) return;
      const auto* refusal = reply ? std::get_if<Refusal>(&*reply) : nullptr;
      const bool standby = refusal != nullptr && refusal->status.code() == Code::kUnavailable;
      const uint32_t next =
          OwnDirectories() ? (address + 1) % (1 + options.coordinator_standbys) : 1 - address;
      if ((!reply || standby) && from->calls == address && (OwnDirectories() || coordinators[next]))
        from->calls = next;
      answer(standby ? std::nullopt : reply);
    });
  };
  once(5 * options.heartbeat_interval, std::nullopt);
  const auto cut = [this, from, address] {
    return now() < std::max(from->cut_off_until, from->cut_from_until[address]);
  };
  if (Chance(options.faults.lost) || cut()) return;
  queue.After(Latency(least), [this, least, address, cut, request = std::move(request), once] {
    const auto c = coordinators[address];
    if (const auto s = standbys[address]; s && s->alive) {
      return ScheduleIn(s, Duration(0), [this, s, least, cut, request, once] {
        ControlReply reply = AnswerAsStandby(s, request);
        if (!Chance(options.faults.lost) && !cut()) once(Latency(least), std::move(reply));
      });
    }
    if (!c || !c->alive) return once(Latency(least), std::nullopt);
    ScheduleIn(c, Duration(0), [this, least, c, cut, request = ControlRequest(request), once]() mutable {
      const uint64_t call = ++last_call;
      c->calls[call] = [this, least, cut, once](ControlReply reply) {
        ++result.messages;
        const bool lost = Chance(options.faults.lost) || cut();
        if (!lost) once(Latency(least), std::move(reply));
      };
      if (c->ended) return;
      if (const auto* follow = std::get_if<FollowRequest>(&request)) return OnFollow(c, call, *follow);
      if (hooks.on_request) hooks.on_request(now(), request);
      if (c->replication) NoteElector(c, call, &request);
      if (!c->alive || c->ended) return;
      Do(c, c->machine->OnRequest(now(), call, request));
      if (options.check && c->alive && c == coordinator) CheckWatermark();
    });
  });
}

// ---- the data plane

void Cluster::State::FreeMessage(uint32_t m) {
  Message& message = messages[m];
  message.request.reset();
  if (!modelled) {
    message.gradient.reset();
    message.values.reset();
  }
  ++message.serial;
  messages.Free(m);
}

uint32_t Cluster::State::AddressIdOf(const std::string& address) {
  if (address.empty()) return 0;
  const auto [at, fresh] = address_ids.try_emplace(address, static_cast<uint32_t>(address_slots.size()));
  if (fresh) address_slots.push_back({address});
  return at->second;
}

uint64_t Cluster::State::BytesOf(const PushRequest& request) const {
  uint64_t bytes = kRequestBytes + request.slices.size() * kSliceBytes;
  if (request.disposition != Disposition::kGradient) return bytes;
  for (const SliceRef& ref : request.slices) bytes += slice_ranges[ref.slice.value].bytes();
  return bytes;
}

uint64_t Cluster::State::BytesOf(const PushReply& reply) const {
  uint64_t bytes = kReplyBytes + reply.slices.size() * kSliceBytes;
  for (const SliceReply& slice : reply.slices) {
    if (slice.values) bytes += slice_ranges[slice.slice.value].bytes();
  }
  return bytes;
}

Connection& Cluster::State::ConnectionOf(RoleProcess* worker, NodeId server) {
  auto& all = worker->connections;
  const auto at = std::ranges::lower_bound(all, server, {}, [](const auto& c) { return c->server; });
  if (at != all.end() && (*at)->server == server) return **at;
  auto made = std::make_unique<Connection>();
  made->server = server;
  return **all.insert(at, std::move(made));
}

void Cluster::State::Act(const ProcessPtr& p, const Disconnect& a) {
  Connection& connection = ConnectionOf(p.get(), a.server);
  ++connection.number;
  connection.there = connection.back = Direction();
  const uint32_t slot = address_slots[connection.address_id].slot;
  if (slot == AddressSlot::kNobody) return;
  if (const ProcessPtr server = roles[slot]; server && server->server && server->node == a.server)
    ForgetParked(server, p->slot);
}

void Cluster::State::Act(const ProcessPtr& p, const SendPush& a) {
  if (DiesAt(DeathPoint::kBeforePush, p)) return;
  ++result.messages;
  if (p->waiting_since < Time(0)) p->waiting_since = now();
  Connection& connection = ConnectionOf(p.get(), a.server);
  if (address_slots[connection.address_id].address != a.address)
    connection.address_id = AddressIdOf(a.address);
  const auto make = [&](bool wanted) {
    const uint32_t m = messages.Allocate();
    Message& message = messages[m];
    message.way = &connection;
    message.request = a.request;
    if (p->memory && message.request->disposition == Disposition::kGradient) {
      message.gradient = p->memory->Pushed();
    }
    message.from = p->slot;
    message.from_incarnation = p->incarnation;
    message.connection = connection.number;
    message.address_id = connection.address_id;
    message.back = message.failed = false;
    message.wanted = wanted;
    message.bytes = BytesOf(*message.request);
    return m;
  };
  const uint32_t slot = address_slots[connection.address_id].slot;
  const RoleProcess* const to = slot == AddressSlot::kNobody ? nullptr : roles[slot].get();
  if (Chance(options.faults.duplicated)) Send(p.get(), to, make(false), now(), nullptr);
  const uint64_t sequence = a.request->sequence;
  if (!cut_until.empty() && IsCut(p->node, a.server)) {
    // The kernel gives up after a while, or the worker's own timeout comes first.
    if (rng.Chance(0.7))
      queue.After(Between(50, 300), [this, p, server = a.server, sequence] { Fail(p, server, sequence); });
    return;
  }
  if (Chance(options.faults.lost)) {
    // Lost silently: the worker only notices its timeout. Otherwise the connection breaks.
    if (!rng.Chance(0.3)) Fail(p, a.server, sequence);
    return;
  }
  if (Chance(options.faults.lost)) {  // applied, but the reply is lost
    Send(p.get(), to, make(false), now(), &connection.there);
    if (!rng.Chance(0.3)) Fail(p, a.server, sequence);
    return;
  }
  const uint32_t m = make(true);
  p->owed += p->cost.Of(messages[m].bytes);
  Send(p.get(), to, m, now(), &connection.there);
  DiesAt(DeathPoint::kPushed, p);
}

void Cluster::State::Fail(const ProcessPtr& worker, NodeId server, uint64_t sequence) {
  const uint32_t connection = ConnectionOf(worker.get(), server).number;
  ScheduleIn(
      worker, Latency(worker->host->latency),
      [this, worker, incarnation = worker->incarnation, connection, server, sequence] {
        if (incarnation != worker->incarnation || ConnectionOf(worker.get(), server).number != connection)
          return;
        const Status why(Code::kUnavailable, "connection lost");
        Do(worker, worker->worker->OnPushFailed(now(), server, sequence, why));
        Wake(worker);
      });
}

RoleProcess* Cluster::State::ServerOf(const Message& message) const {
  const uint32_t slot = message.back ? message.to : address_slots[message.address_id].slot;
  return slot == AddressSlot::kNobody ? nullptr : roles[slot].get();
}

void Cluster::State::Send(RoleProcess* from, const RoleProcess* to, uint32_t m, Time at,
                          Direction* direction) {
  Message& message = messages[m];
  message.unsent = message.bytes;
  message.window = direction != nullptr ? DrawWindow(message.bytes) : Message::kWhole;
  message.next = Direction::kNone;
  message.last_byte = at;
  if (direction != nullptr && direction->queued != Direction::kNone) {
    messages[std::exchange(direction->queued, m)].next = m;
  } else if (!SendWindow(from, to, m, at, direction)) {
    direction->queued = m;
  }
}

uint32_t Cluster::State::DrawWindow(uint64_t bytes) {
  const bool together = options.strategy.stepped() && options.strategy.ahead() == 0;
  if (!together || 2 * bytes < 3 * options.window) return Message::kWhole;
  const uint64_t windows = std::min((bytes + options.window / 2) / options.window, options.kMostWindows);
  const double equal = static_cast<double>(bytes) / static_cast<double>(windows);
  return static_cast<uint32_t>(std::min<double>(equal * (0.5 + rng.Uniform()) + 1, Message::kWhole));
}

bool Cluster::State::SendWindow(RoleProcess* from, const RoleProcess* to, uint32_t m, Time at,
                                Direction* direction) {
  Message& message = messages[m];
  const uint64_t window = std::min<uint64_t>(message.unsent, message.window);
  const Departure departure =
      Leaves(from, to, window, at, direction != nullptr ? &direction->last : nullptr, 1);
  if (window < message.unsent) {
    message.unsent -= window;
    if (to != nullptr && departure.route != Route::kLocal) {
      queue.After(departure.first - now(),
                  [this, out_of = from->host, into = to->host, window, route = departure.route] {
                    PassWindow(*out_of, into, window, route);
                  });
    }
    queue.At(departure.left, kMoreToSend, m);
    return false;
  }
  message.last_byte = departure.last;
  message.route = departure.route;
  queue.At(departure.first, departure.route == Route::kOutOf ? kCrosses : kArrive, m);
  return true;
}

void Cluster::State::OnMoreToSend(uint32_t m) {
  const Message& head = messages[m];
  RoleProcess* const worker = roles[head.from].get();
  // Unsent data is lost if the worker is gone or has closed the connection.
  if (!worker || worker->incarnation != head.from_incarnation || head.way->number != head.connection)
    return LeaveQueue(m, &State::FreeMessage);
  Direction& direction = head.back ? head.way->back : head.way->there;
  RoleProcess* const server = ServerOf(head);
  if (head.back && (!server || server->incarnation != head.to_incarnation)) {
    direction.queued = Direction::kNone;
    return LeaveQueue(m, &State::Bounce);
  }
  RoleProcess* const from = head.back ? server : worker;
  for (const RoleProcess* const to = head.back ? worker : server; m != Direction::kNone;) {
    const uint32_t next = messages[m].next;
    if (!SendWindow(from, to, m, std::max(now(), messages[m].last_byte), &direction)) return;
    m = next;
  }
  direction.queued = Direction::kNone;
}

void Cluster::State::LeaveQueue(uint32_t m, void (State::*end)(uint32_t)) {
  while (m != Direction::kNone) {
    const uint32_t next = messages[m].next;
    (this->*end)(m);
    m = next;
  }
}

void Cluster::State::Bounce(uint32_t m) {
  Message& message = messages[m];
  const ProcessPtr& worker = roles[message.from];
  if (!message.wanted || !worker || worker->incarnation != message.from_incarnation) return FreeMessage(m);
  message.back = message.failed = true;
  queue.At(now() + Latency(worker->host->latency), kDeliver, m);
}

void Cluster::State::OnArrive(uint32_t m) {
  Message& message = messages[m];
  if (!message.back) {
    message.to = address_slots[message.address_id].slot;
    if (message.to == AddressSlot::kNobody) return Bounce(m);
  }
  const ProcessPtr& p = roles[message.back ? message.from : message.to];
  if (message.back && (!p || p->incarnation != message.from_incarnation)) return FreeMessage(m);
  // Lost silently: the worker only notices its timeout.
  if (Isolated(p.get(), roles[message.back ? message.to : message.from].get())) return FreeMessage(m);
  const Time there = Comes(p.get(), message.unsent, message.last_byte, message.route);
  if (message.back) {
    if (there > now()) return queue.At(there, kDeliver, m);
    return OnDeliver(m);
  }
  // Pushes are processed in the order of arrival, so the machine may have this one already. Its reply leaves
  // when its last byte has arrived and earlier pushes are done.
  message.to_incarnation = p->incarnation;
  if (now() < p->paused_until) return queue.At(std::max(there, p->paused_until), kDeliver, m);
  Serve(p, m, there);
}

void Cluster::State::OnDeliver(uint32_t m) {
  Message& message = messages[m];
  const ProcessPtr& p = roles[message.back ? message.from : message.to];
  if (p && now() < p->paused_until) return queue.At(p->paused_until, kDeliver, m);
  if (message.back) return TakeReply(m);
  if (!p || p->incarnation != message.to_incarnation) return Bounce(m);
  Serve(p, m, now());
}

void Cluster::State::Serve(const ProcessPtr& p, uint32_t m, Time there) {
  if (DiesAt(DeathPoint::kBeforeApply, ProcessPtr(p))) return Bounce(m);
  Message& message = messages[m];
  const PushRequest& request = *message.request;
  p->bytes_in += message.bytes;
  p->busy_until = std::max(p->busy_until, there) + Busy(p.get(), message.bytes);
  std::vector<SliceRef> before;
  if (options.check) before = VersionsOf(*p);
  const Status begun = p->server->Begin(request);
  if (!begun.ok()) return Violate(Invariant::kAccepted, "a server refused a push: " + begun.ToString());
  std::vector<SliceReply> replies = std::move(message.reply.slices);  // reuses the memory
  std::vector<std::span<const float>> gradients;
  if (!modelled && message.gradient) {
    for (const SliceRef& ref : request.slices) {
      const ElementRange& range = slice_ranges[ref.slice.value];
      gradients.push_back(std::span(*message.gradient).subspan(range.begin, range.elements()));
    }
  }
  p->server->ApplyAll(request, gradients, &replies);
  for (const SliceReply& reply : replies) {
    if (reply.outcome == SliceOutcome::kDuplicate) ++result.duplicates;
    if (reply.outcome == SliceOutcome::kLate) ++result.late;
  }
  if (options.check && options.replicas < 2) CheckApplied(request, replies);
  const uint64_t ticket = uint64_t{message.serial} << 32 | m;
  auto reply = p->server->Finish(ticket, request, std::move(replies));
  if (DiesAt(DeathPoint::kApplied, ProcessPtr(p))) return Bounce(m);
  if (reply) {
    SendReply(p, m, std::move(*reply));
  } else {
    p->parked.emplace_back(ticket, now());
  }
  if (options.check && options.replicas < 2) CheckWriter(*p, before);
  TakeReady(p);
  if (!p->heartbeat_in_flight && p->server->HeartbeatUrgent()) MaybeSendHeartbeat(p);
}

void Cluster::State::TakeReady(const ProcessPtr& p) {
  DoForwards(p);
  DoMoves(p);
  for (Server::Ready& ready : p->server->TakeReady()) {
    if (AnswerPulled(p, &ready)) continue;
    const auto at = std::ranges::find(p->parked, ready.ticket, &std::pair<uint64_t, Time>::first);
    LEAT_CHECK(at != p->parked.end());
    p->parked.erase(at);
    SendReply(p, static_cast<uint32_t>(ready.ticket), std::move(ready.reply));
  }
}

void Cluster::State::SendReply(const ProcessPtr& p, uint32_t m, PushReply reply) {
  Message& message = messages[m];
  const ProcessPtr& worker = roles[message.from];
  if (options.check && options.replicas > 1) CheckTold(*p, *message.request, reply);
  if (!message.wanted || !worker || worker->incarnation != message.from_incarnation) return FreeMessage(m);
  if (!cut_until.empty() && IsCut(worker->node, p->node)) return FreeMessage(m);
  ++result.messages;
  message.reply = std::move(reply);
  message.back = true;
  message.bytes = BytesOf(message.reply);
  p->bytes_out += message.bytes;
  if (!modelled) {
    for (const SliceReply& slice : message.reply.slices) {
      if (!slice.values) continue;
      if (!message.values) message.values = std::make_shared<std::vector<float>>();
      const auto held = p->server->Values(slice.slice, slice.version);
      message.values->insert(message.values->end(), held.values.begin(), held.values.end());
    }
  }
  Send(p.get(), worker.get(), m, std::max(now(), p->busy_until), &message.way->back);
}

void Cluster::State::TakeReply(uint32_t m) {
  Message& message = messages[m];
  RoleProcess* const p = roles[message.from].get();
  if (!p || p->incarnation != message.from_incarnation || message.way->number != message.connection)
    return FreeMessage(m);
  const NodeId server = message.way->server;
  if (p->waiting_since >= Time(0)) p->progress.wait_seconds += Seconds(now() - p->waiting_since);
  p->waiting_since = Time(-1);
  p->owed += p->cost.Of(message.bytes);
  bool usual = !message.failed && !message.reply.evicted;
  WorkerActions actions;
  if (message.failed) {
    const Status why(Code::kUnavailable, "connection lost");
    actions = p->worker->OnPushFailed(now(), server, message.request->sequence, why);
  } else {
    for (const SliceReply& slice : message.reply.slices) {
      usual = usual && slice.outcome != SliceOutcome::kNotHere;
    }
    if (p->memory && message.values) {
      size_t at = 0;
      for (const SliceReply& slice : message.reply.slices) {
        if (!slice.values) continue;
        const uint64_t n = slice_ranges[slice.slice.value].elements();
        p->memory->TakeValues(slice.slice, slice.version, std::span(*message.values).subspan(at, n));
        at += n;
      }
    }
    actions = p->worker->OnPushReply(now(), server, message.reply);
  }
  const uint32_t slot = message.from;
  FreeMessage(m);
  if (usual && actions.empty() && !p->worker->HeartbeatUrgent()) return;
  const ProcessPtr held = roles[slot];
  Do(held, actions);
  // Only exceptional events need a timer before the next heartbeat.
  if (!usual && held->alive) Wake(held);
}

void Cluster::State::ForgetParked(const ProcessPtr& server, uint32_t worker) {
  std::erase_if(server->parked, [&](const auto& parked) {
    const auto m = static_cast<uint32_t>(parked.first);
    if (messages[m].from != worker) return false;
    server->server->Forget(parked.first);
    FreeMessage(m);
    return true;
  });
}

void Cluster::State::ExpireParked(const ProcessPtr& server) {
  std::vector<uint64_t> expired;
  for (const auto& [ticket, since] : server->parked) {
    if (now() - since < options.parked_timeout) break;
    expired.push_back(ticket);
  }
  for (uint64_t ticket : expired) server->server->Expire(ticket);
  if (!expired.empty()) TakeReady(server);
}

}  // namespace leat::sim
