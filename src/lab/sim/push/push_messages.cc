#include "lab/sim/push/push_messages.h"

#include <algorithm>
#include <utility>

#include "base/prefetch.h"
#include "lab/sim/cluster/concerns.h"
#include "protocol/prefetch.h"

namespace leat::sim {

using namespace protocol;

namespace {

// Approximate sizes of wire/'s headers.
constexpr uint64_t kRequestBytes = 160, kReplyBytes = 64, kSliceBytes = 24;

}  // namespace

void PushMessages::Free(uint32_t m) {
  Message& message = messages_[m];
  message.request.reset();
  if (!world_.modelled) {
    message.gradient.reset();
    message.values.reset();
  }
  ++message.serial;
  messages_.Free(m);
}

uint64_t PushMessages::BytesOf(const PushRequest& request) const {
  uint64_t bytes = kRequestBytes + request.slices.size() * kSliceBytes;
  if (request.disposition != Disposition::kGradient) return bytes;
  for (const SliceRef& ref : request.slices) bytes += world_.slice_ranges[ref.slice.value].bytes();
  return bytes;
}

uint64_t PushMessages::BytesOf(const PushReply& reply) const {
  uint64_t bytes = kReplyBytes + reply.slices.size() * kSliceBytes;
  for (const SliceReply& slice : reply.slices) {
    if (slice.values) bytes += world_.slice_ranges[slice.slice.value].bytes();
  }
  return bytes;
}

Connection& PushMessages::ConnectionOf(RoleProcess* worker, NodeId server) {
  auto& all = worker->connections;
  const auto at = std::ranges::lower_bound(all, server, {}, [](const auto& c) { return c->server; });
  if (at != all.end() && (*at)->server == server) return **at;
  auto made = std::make_unique<Connection>();
  made->server = server;
  return **all.insert(at, std::move(made));
}

void PushMessages::Execute(const ProcessPtr& p, const Disconnect& a) {
  Connection& connection = ConnectionOf(p.get(), a.server);
  ++connection.number;
  connection.there = connection.back = Direction();
  const ProcessPtr server = processes_.At(connection.address_id);
  if (server && server->server && server->node == a.server) all_.servers.ForgetParked(server, p->slot);
}

void PushMessages::Execute(const ProcessPtr& p, const SendPush& a) {
  if (all_.faults.DiesAt(DeathPoint::kBeforePush, p)) return;
  ++result_.messages;
  if (p->waiting_since < Time(0)) p->waiting_since = now();
  Connection& connection = ConnectionOf(p.get(), a.server);
  if (processes_.AddressOf(connection.address_id) != a.address)
    connection.address_id = processes_.AddressIdOf(a.address);
  const auto make = [&](bool wanted) {
    const uint32_t m = messages_.Allocate();
    Message& message = messages_[m];
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
  const RoleProcess* const to = processes_.At(connection.address_id).get();
  if (Chance(options_.faults.duplicated)) Send(p.get(), to, make(false), now(), nullptr);
  const uint64_t sequence = a.request->sequence;
  if (all_.faults.AnyCut() && all_.faults.IsCut(p->node, a.server)) {
    // The kernel gives up after a while, or the worker's own timeout comes first.
    if (rng_.Chance(0.7))
      queue_.After(Between(50, 300), [this, p, server = a.server, sequence] { Fail(p, server, sequence); });
    return;
  }
  if (Chance(options_.faults.lost)) {
    // Lost silently: the worker only notices its timeout. Otherwise the connection breaks.
    if (!rng_.Chance(0.3)) Fail(p, a.server, sequence);
    return;
  }
  if (Chance(options_.faults.lost)) {  // applied, but the reply is lost
    Send(p.get(), to, make(false), now(), &connection.there);
    if (!rng_.Chance(0.3)) Fail(p, a.server, sequence);
    return;
  }
  const uint32_t m = make(true);
  p->owed += p->cost.Of(messages_[m].bytes);
  Send(p.get(), to, m, now(), &connection.there);
  all_.faults.DiesAt(DeathPoint::kPushed, p);
}

void PushMessages::Fail(const ProcessPtr& worker, NodeId server, uint64_t sequence) {
  const uint32_t connection = ConnectionOf(worker.get(), server).number;
  ScheduleIn(
      worker, Latency(worker->host->latency),
      [this, worker, incarnation = worker->incarnation, connection, server, sequence] {
        if (incarnation != worker->incarnation || ConnectionOf(worker.get(), server).number != connection)
          return;
        const Status why(Code::kUnavailable, "connection lost");
        all_.members.ExecuteAll(worker, worker->worker->OnPushFailed(now(), server, sequence, why));
        all_.members.Wake(worker);
      });
}

RoleProcess* PushMessages::ServerOf(const Message& message) const {
  if (!message.back) return processes_.At(message.address_id).get();
  return message.to == ProcessTable::kNobody ? nullptr : processes_[message.to].get();
}

void PushMessages::Send(RoleProcess* from, const RoleProcess* to, uint32_t m, Time at, Direction* direction) {
  Message& message = messages_[m];
  message.unsent = message.bytes;
  message.window = direction != nullptr ? DrawWindow(message.bytes) : Message::kWhole;
  message.next = Direction::kNone;
  message.last_byte = at;
  if (direction != nullptr && direction->queued != Direction::kNone) {
    messages_[std::exchange(direction->queued, m)].next = m;
  } else if (!SendWindow(from, to, m, at, direction)) {
    direction->queued = m;
  }
}

uint32_t PushMessages::DrawWindow(uint64_t bytes) {
  const bool together = options_.strategy.stepped() && options_.strategy.ahead() == 0;
  if (!together || 2 * bytes < 3 * options_.window) return Message::kWhole;
  const uint64_t windows = std::min((bytes + options_.window / 2) / options_.window, options_.kMostWindows);
  const double equal = static_cast<double>(bytes) / static_cast<double>(windows);
  return static_cast<uint32_t>(std::min<double>(equal * (0.5 + rng_.Uniform()) + 1, Message::kWhole));
}

bool PushMessages::SendWindow(RoleProcess* from, const RoleProcess* to, uint32_t m, Time at,
                              Direction* direction) {
  Message& message = messages_[m];
  const uint64_t window = std::min<uint64_t>(message.unsent, message.window);
  const Departure departure =
      all_.machines.Leaves(from, to, window, at, direction != nullptr ? &direction->last : nullptr, 1);
  if (window < message.unsent) {
    message.unsent -= window;
    if (to != nullptr && departure.route != Route::kLocal) {
      queue_.After(departure.first - now(),
                   [this, out_of = from->host, into = to->host, window, route = departure.route] {
                     all_.machines.PassWindow(*out_of, into, window, route);
                   });
    }
    queue_.At(departure.left, kMoreToSend, m);
    return false;
  }
  message.last_byte = departure.last;
  message.route = departure.route;
  queue_.At(departure.first, departure.route == Route::kOutOf ? kCrosses : kArrive, m);
  return true;
}

void PushMessages::OnMoreToSend(uint32_t m) {
  const Message& head = messages_[m];
  RoleProcess* const worker = processes_[head.from].get();
  // Unsent data is lost if the worker is gone or has closed the connection.
  if (!worker || worker->incarnation != head.from_incarnation || head.way->number != head.connection)
    return LeaveQueue(m, &PushMessages::Free);
  Direction& direction = head.back ? head.way->back : head.way->there;
  RoleProcess* const server = ServerOf(head);
  if (head.back && (!server || server->incarnation != head.to_incarnation)) {
    direction.queued = Direction::kNone;
    return LeaveQueue(m, &PushMessages::Bounce);
  }
  RoleProcess* const from = head.back ? server : worker;
  for (const RoleProcess* const to = head.back ? worker : server; m != Direction::kNone;) {
    const uint32_t next = messages_[m].next;
    if (!SendWindow(from, to, m, std::max(now(), messages_[m].last_byte), &direction)) return;
    m = next;
  }
  direction.queued = Direction::kNone;
}

void PushMessages::LeaveQueue(uint32_t m, void (PushMessages::*end)(uint32_t)) {
  while (m != Direction::kNone) {
    const uint32_t next = messages_[m].next;
    (this->*end)(m);
    m = next;
  }
}

void PushMessages::Bounce(uint32_t m) {
  Message& message = messages_[m];
  const ProcessPtr& worker = processes_[message.from];
  if (!message.wanted || !worker || worker->incarnation != message.from_incarnation) return Free(m);
  message.back = message.failed = true;
  queue_.At(now() + Latency(worker->host->latency), kDeliver, m);
}

void PushMessages::Abandon(uint32_t m) {
  Message& message = messages_[m];
  const ProcessPtr& from = processes_[message.from];
  if (message.wanted && from && from->incarnation == message.from_incarnation) {
    Fail(from, message.way->server, message.request->sequence);
  }
  Free(m);
}

void PushMessages::OnArrive(uint32_t m) {
  Message& message = messages_[m];
  if (!message.back) {
    message.to = processes_.SlotAt(message.address_id);
    if (message.to == ProcessTable::kNobody) return Bounce(m);
  }
  const ProcessPtr& p = processes_[message.back ? message.from : message.to];
  if (message.back && (!p || p->incarnation != message.from_incarnation)) return Free(m);
  // Lost silently: the worker only notices its timeout.
  if (all_.faults.Isolated(p.get(), processes_[message.back ? message.to : message.from].get()))
    return Free(m);
  const Time there = all_.machines.Comes(p.get(), message.unsent, message.last_byte, message.route);
  if (message.back) {
    if (there > now()) return queue_.At(there, kDeliver, m);
    return OnDeliver(m);
  }
  // Pushes are processed in the order of arrival, so the machine may have this one already. Its reply leaves
  // when its last byte has arrived and earlier pushes are done.
  message.to_incarnation = p->incarnation;
  if (now() < p->paused_until) return queue_.At(std::max(there, p->paused_until), kDeliver, m);
  all_.servers.Serve(p, m, there);
}

void PushMessages::OnDeliver(uint32_t m) {
  Message& message = messages_[m];
  const ProcessPtr& p = processes_[message.back ? message.from : message.to];
  if (p && now() < p->paused_until) return queue_.At(p->paused_until, kDeliver, m);
  if (message.back) return TakeReply(m);
  if (!p || p->incarnation != message.to_incarnation) return Bounce(m);
  all_.servers.Serve(p, m, now());
}

void PushMessages::OnCrosses(uint32_t m) {
  Message& message = messages_[m];
  const RoleProcess* const worker = processes_[message.from].get();
  const RoleProcess* const server = ServerOf(message);
  const Time next = all_.machines.Crosses(message.back ? server : worker, message.back ? worker : server,
                                          message.unsent, &message.last_byte, &message.route);
  queue_.At(next, message.route == Route::kLink ? kArrive : kCrosses, m);
}

void PushMessages::SendBack(const ProcessPtr& p, uint32_t m, PushReply&& reply) {
  Message& message = messages_[m];
  const ProcessPtr& worker = processes_[message.from];
  if (options_.check && options_.replicas > 1) all_.slice_check.CheckTold(*p, *message.request, reply);
  if (!message.wanted || !worker || worker->incarnation != message.from_incarnation) return Free(m);
  if (all_.faults.AnyCut() && all_.faults.IsCut(worker->node, p->node)) return Free(m);
  ++result_.messages;
  message.reply = std::move(reply);
  message.back = true;
  message.bytes = BytesOf(message.reply);
  p->bytes.out += message.bytes;
  if (!world_.modelled) {
    for (const SliceReply& slice : message.reply.slices) {
      if (!slice.values) continue;
      if (!message.values) message.values = std::make_shared<std::vector<float>>();
      const auto held = p->server->Values(slice.slice, slice.version);
      message.values->insert(message.values->end(), held.values.begin(), held.values.end());
    }
  }
  Send(p.get(), worker.get(), m, std::max(now(), p->busy_until), &message.way->back);
}

void PushMessages::TakeReply(uint32_t m) {
  Message& message = messages_[m];
  RoleProcess* const p = processes_[message.from].get();
  if (!p || p->incarnation != message.from_incarnation || message.way->number != message.connection)
    return Free(m);
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
        const uint64_t n = world_.slice_ranges[slice.slice.value].elements();
        p->memory->TakeValues(slice.slice, slice.version, std::span(*message.values).subspan(at, n));
        at += n;
      }
    }
    actions = p->worker->OnPushReply(now(), server, message.reply);
  }
  const uint32_t slot = message.from;
  Free(m);
  if (usual && actions.empty() && !p->worker->HeartbeatUrgent()) return;
  const ProcessPtr held = processes_[slot];
  all_.members.ExecuteAll(held, actions);
  // Only exceptional events need a timer before the next heartbeat.
  if (!usual && held->alive) all_.members.Wake(held);
}

// ---- cache hints
//
// A thousand workers have tens of megabytes of state, so the data of each message is no longer in the cache.
// Since events are known some time ahead, many cache lines can be fetched in parallel instead of waiting for
// one after the other. Each hop loads the addresses for the next.

void PushMessages::PrefetchEvent(const EventQueue::Event& event, int hop) {
  const Message& message = messages_[event.what];
  if (hop == 0) return Prefetch(&message, sizeof(message));
  const RoleProcess* const p = processes_[message.from].get();
  if (hop == 1) Prefetch(p, kHotProcessBytes);
  if (hop == 2 && p) Prefetch(p->host, sizeof(HostState));
  if (message.back &&
      (event.kind != kDeliver || !p || p->incarnation != message.from_incarnation || message.failed))
    return;
  const PushRequest& request = *message.request;
  const std::vector<SliceReply>& replies = message.reply.slices;
  if (hop == 1) {
    Prefetch(&request, sizeof(request));
    Prefetch(message.way, sizeof(Connection));
    return Prefetch(replies.data(),
                    (message.back ? replies.size() : replies.capacity()) * sizeof(SliceReply));
  }
  if (hop == 2) Prefetch(request.slices.data(), request.slices.size() * sizeof(SliceRef));
  if (message.back) return PrefetchHints::Reply(*p->worker, message.way->server, request.sequence, hop - 2);
  if (const uint32_t slot = processes_.SlotAt(message.address_id); hop == 3 && slot != ProcessTable::kNobody)
    PrefetchHints::Push(*processes_[slot]->server, request);
}

}  // namespace leat::sim
