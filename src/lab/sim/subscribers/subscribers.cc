#include "lab/sim/subscribers/subscribers.h"

#include <algorithm>
#include <span>
#include <utility>

#include "lab/sim/cluster/concerns.h"
#include "protocol/allreduce/group_member.h"

namespace leat::sim {

using namespace protocol;

namespace {

bool Older(const SliceRef& a, const SliceRef& b) {
  return std::pair(a.incarnation, a.version) < std::pair(b.incarnation, b.version);
}

// Tickets of pulls at servers; those of pushes are smaller.
constexpr uint64_t kFirstTicket = uint64_t{1} << 63;

}  // namespace

void Subscribers::StartAll() {
  while (subscribers_.size() < options_.followers) {
    const auto s = subscribers_.emplace_back(std::make_shared<SubscriberProcess>());
    for (auto& memory : s->memories) {
      memory.values.resize(world_.modelled ? 0 : world_.elements);
      memory.held = SubscribedValues(world_.slice_ranges.size());
    }
    Join(s);
  }
}

void Subscribers::Join(const SubscriberPtr& s) {
  ++s->incarnation;
  if (s->machine) s->machine->Abort();
  s->joined = s->heartbeat_in_flight = false;
  s->connections.clear();
  s->wake_at = Time::max();
  s->machine = std::make_unique<Subscriber>(SubscriberConfig{.table = options_.table,
                                                             .on_servers = options_.strategy.on_servers(),
                                                             .refresh = options_.refresh,
                                                             .reply_timeout = options_.reply_timeout});
  ScheduleIn(s, Between(20, 200), [this, s, incarnation = s->incarnation] {
    if (incarnation == s->incarnation) AskToJoin(s);
  });
}

void Subscribers::AskToJoin(const SubscriberPtr& s) {
  JoinRequest request;
  request.role = Role::kServe;
  request.process = ~static_cast<uint64_t>(std::ranges::find(subscribers_, s) - subscribers_.begin());
  all_.calls.Call(s, request, [this, s, incarnation = s->incarnation](std::optional<ControlReply> reply) {
    if (incarnation != s->incarnation) return;
    const auto* joined = reply ? std::get_if<JoinReply>(&*reply) : nullptr;
    if (!joined || !joined->status.ok()) return Join(s);
    s->joined = true;
    s->node = joined->node;
    s->machine->OnJoined(s->node, joined->term);
    SendHeartbeat(s);
  });
}

void Subscribers::SendHeartbeat(const SubscriberPtr& s) {
  s->heartbeat_in_flight = true;
  s->last_heartbeat = now();
  all_.calls.Call(s, s->machine->MakeHeartbeat(),
                  [this, s, incarnation = s->incarnation](std::optional<ControlReply> reply) {
                    if (incarnation != s->incarnation) return;
                    s->heartbeat_in_flight = false;
                    const uint64_t term = s->machine->term();
                    if (const auto* answer = reply ? std::get_if<ServeHeartbeatReply>(&*reply) : nullptr)
                      ExecuteAll(s, s->machine->OnHeartbeatReply(now(), *answer));
                    if (s->joined) all_.coordinators.CheckTerm(term, s->machine->term());
                    Wake(s);
                  });
}

void Subscribers::Wake(const SubscriberPtr& s) {
  if (!s->joined) return;
  if (s->machine->next_timer() <= now()) ExecuteAll(s, s->machine->OnTimer(now()));
  if (!s->joined) return;
  if (!s->heartbeat_in_flight) {
    const Duration gap = s->machine->HeartbeatUrgent() ? kUrgentGap : options_.heartbeat_interval;
    if (s->last_heartbeat + gap <= now()) return SendHeartbeat(s);
    WakeAt(s, s->last_heartbeat + gap);
  }
  if (const Time next = s->machine->next_timer(); next != Time::max())
    WakeAt(s, std::max(next, now() + std::chrono::milliseconds(1)));
}

void Subscribers::WakeAt(const SubscriberPtr& s, Time at) {
  if (s->wake_at <= at) return;
  s->wake_at = at;
  ScheduleIn(s, at - now(), [this, s, at] {
    if (s->wake_at != at) return;
    s->wake_at = Time::max();
    Wake(s);
  });
}

void Subscribers::ExecuteAll(const SubscriberPtr& s, const SubscriberActions& actions) {
  const uint32_t incarnation = s->incarnation;
  for (const SubscriberAction& action : actions) {
    if (incarnation != s->incarnation || world_.done) return;
    std::visit([&](const auto& a) { Execute(s, a); }, action);
  }
}

void Subscribers::Execute(const SubscriberPtr& s, const Disconnect& a) {
  ++s->connections[a.server];
  for (auto at = parked_.begin(); at != parked_.end();) {
    const auto here = at++;
    if (here->second.from != s || here->second.server->node != a.server) continue;
    if (here->second.server->server) here->second.server->server->Forget(here->first);
    parked_.erase(here);
  }
}

void Subscribers::Execute(const SubscriberPtr& s, const BeginSweep&) {
  s->filled = 1 - s->filled;
  s->placed.clear();
  const View& known = s->machine->view();
  for (uint32_t i = 0; i < world_.slice_ranges.size(); ++i) {
    SliceRef& ref = s->placed.emplace_back(SliceRef{SliceId(i), {}, 0});
    for (const ProcessPtr& p : processes_.processes()) {
      if (!p || !p->server || p->node != known.slices[i].server) continue;
      const auto there = p->server->VersionOf(SliceId(i));
      if (there && there->incarnation == known.slices[i].incarnation) ref = *there;
    }
  }
  ExecuteAll(s, s->machine->OnRoom(now(), &s->memories[s->filled].held));
}

void Subscribers::Execute(const SubscriberPtr& s, const CompleteSweep& a) {
  ++result_.follow_rounds;
  if (a.changed) ++result_.follow_changes;
  if (s->last_asked) result_.follow_gap = std::max(result_.follow_gap, a.asked - *s->last_asked);
  s->last_asked = a.asked;
  if (options_.check) CheckCompleted(s);
  if (world_.hooks.on_followed) world_.hooks.on_followed(now(), a.asked);
}

void Subscribers::CheckCompleted(const SubscriberPtr& s) {
  const auto& memory = s->memories[s->filled];
  // Updates that no worker was told of are lost with a server, and others take their place.
  const bool unique = options_.replicas < 2 || options_.strategy.stepped();
  for (uint32_t i = 0; i < world_.slice_ranges.size(); ++i) {
    const SliceRef& has = memory.held.slices[i];
    const auto what = [&] { return NameOf(SliceId(i)) + ": " + NameOf(has); };
    if (options_.replicas < 2 && Older(has, s->placed[i]))
      return Violate(Invariant::kSubscribersCurrent,
                     what() + " is older than " + NameOf(s->placed[i]) + " on its server");
    const auto before = s->completed.find(has.slice);
    if (unique && before != s->completed.end() && has.incarnation == before->second.incarnation &&
        has.version < before->second.version)
      return Violate(Invariant::kSubscribersCurrent, what() + " comes after " + NameOf(before->second));
    s->completed[has.slice] = has;
    if (world_.modelled || !unique) continue;
    const ElementRange& range = world_.slice_ranges[i];
    const auto values = std::span(memory.values).subspan(range.begin, range.elements());
    const auto sent = sent_.find({has.slice, has.incarnation, has.version});
    if (sent == sent_.end() || !std::ranges::equal(sent->second, values))
      return Violate(Invariant::kSubscribersCurrent, what() + " has values that no server had");
  }
}

void Subscribers::OnReply(const SubscriberPtr& s, NodeId server, const PushReply& reply,
                          const std::vector<float>& values) {
  size_t at = 0;
  for (const SliceReply& slice : reply.slices) {
    if (!slice.values || world_.modelled) continue;
    const ElementRange& range = world_.slice_ranges[slice.slice.value];
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(at), range.elements(),
                s->memories[s->filled].values.begin() + static_cast<std::ptrdiff_t>(range.begin));
    at += range.elements();
  }
  ExecuteAll(s, s->machine->OnPushReply(now(), server, reply));
  Wake(s);
}

void Subscribers::InjectFaults() {
  if (subscribers_.empty()) return;
  queue_.After(FromSeconds(rng_.Exponential(3 * Seconds(options_.faults.fault_interval))), [this] {
    if (!world_.Faulty() || world_.done) return;
    InjectFaults();
    const SubscriberPtr& s = subscribers_[rng_.Below(subscribers_.size())];
    const double what = rng_.Uniform();
    if (what < 0.4) {
      all_.faults.Pause(s.get(), all_.faults.DrawPause());
    } else if (what < 0.7) {
      s->cut_off_until = now() + Between(100, 4000);
    } else {
      Join(s);
    }
  });
}

void Subscribers::Execute(const SubscriberPtr& s, const SendPush& a) {
  ++result_.messages;
  const uint64_t connection = s->connections[a.server];
  const auto fail = [this, s, incarnation = s->incarnation, connection, server = a.server,
                     sequence = a.request->sequence](Duration delay) {
    ScheduleIn(s, delay, [this, s, incarnation, connection, server, sequence] {
      if (incarnation != s->incarnation || s->connections[server] != connection) return;
      ExecuteAll(s, s->machine->OnPushFailed(now(), server, sequence));
      Wake(s);
    });
  };
  const Duration least = options_.worker_link.latency;
  if (Chance(options_.faults.lost)) {
    if (!rng_.Chance(0.3)) fail(Latency(least));
    return;
  }
  queue_.After(Latency(least), [this, s, a, connection, fail, least, incarnation = s->incarnation,
                                id = processes_.AddressIdOf(a.address)] {
    const ProcessPtr p = processes_.At(id);
    if (!p) return fail(Latency(least));
    const auto answer = [this, s, server = a.server, connection, incarnation, least](
                            PushReply reply, std::vector<float> values) {
      if (Chance(options_.faults.lost)) return;
      ScheduleIn(
          s, Latency(least),
          [this, s, server, connection, incarnation, reply = std::move(reply), values = std::move(values)] {
            if (incarnation != s->incarnation || s->connections[server] != connection) return;
            OnReply(s, server, reply, values);
          });
    };
    ScheduleIn(p, Duration(0), [this, s, p, request = a.request, answer] { Arrive(p, s, *request, answer); });
  });
}

// ---- pulls

void Subscribers::Arrive(const ProcessPtr& p, const SubscriberPtr& s, const PushRequest& request,
                         const AnswerFunction& answer) {
  if (p->group_member) {
    const GroupMember& machine = *p->group_member->machine;
    const PushReply reply = protocol::AnswerPull(request, machine.view(), machine.values());
    return answer(reply, ValuesOf(*p, reply));
  }
  if (!p->server) return;
  const Status begun = p->server->Begin(request);
  if (!begun.ok()) return Violate(Invariant::kJobAccepted, "a server refused a pull: " + begun.ToString());
  std::vector<SliceReply> replies;
  p->server->ApplyAll(request, {}, &replies);
  const uint64_t ticket = kFirstTicket + ++last_pull_;
  auto reply = p->server->Finish(ticket, request, std::move(replies));
  if (reply) {
    auto values = ValuesOf(*p, *reply);
    answer(std::move(*reply), std::move(values));
  } else {
    parked_[ticket] = {p, s, answer};
    ScheduleIn(p, options_.parked_timeout, [this, p, ticket] {
      if (!parked_.contains(ticket) || !p->server) return;
      p->server->Expire(ticket);
      all_.servers.Advance(p);
    });
  }
  all_.servers.Advance(p);
}

bool Subscribers::AnswerPull(const ProcessPtr& p, Server::Ready* ready) {
  if (ready->ticket < kFirstTicket) return false;
  if (auto pull = parked_.extract(ready->ticket)) {
    auto values = ValuesOf(*p, ready->reply);
    pull.mapped().answer(std::move(ready->reply), std::move(values));
  }
  return true;
}

void Subscribers::ForgetServer(const ProcessPtr& server) {
  std::erase_if(parked_, [&](const auto& entry) { return entry.second.server == server; });
}

std::vector<float> Subscribers::ValuesOf(const RoleProcess& p, const PushReply& reply) {
  std::vector<float> values;
  if (world_.modelled) return values;
  for (const SliceReply& slice : reply.slices) {
    if (!slice.values) continue;
    const auto held = p.server ? p.server->Values(slice.slice, slice.version).values
                               : p.group_member->parameters->values(slice.slice);
    values.insert(values.end(), held.begin(), held.end());
    if (!options_.check) continue;
    const bool unique = options_.replicas < 2 || options_.strategy.stepped();
    auto [at, fresh] = sent_.try_emplace({slice.slice, slice.incarnation, slice.version});
    if (!fresh && unique && !std::ranges::equal(at->second, held)) {
      Violate(Invariant::kSubscribersCurrent,
              NameOf(slice.slice) + ": " + NameOf(SliceRef{slice.slice, slice.incarnation, slice.version}) +
                  " has other values than before");
    }
    at->second.assign(held.begin(), held.end());
  }
  return values;
}

}  // namespace leat::sim
