#include "lab/sim/subscribers/subscriber_processes.h"

#include <algorithm>
#include <string>
#include <utility>

#include "lab/sim/cluster/concerns.h"

namespace leat::sim {

using namespace protocol;

namespace {

constexpr Duration kUrgentSubscriberGap = std::chrono::milliseconds(10);

bool Older(const SliceRef& a, const SliceRef& b) {
  return std::pair(a.incarnation, a.version) < std::pair(b.incarnation, b.version);
}

}  // namespace

void SubscriberProcesses::StartAll() {
  while (subscribers_.size() < options_.followers) Start();
}

void SubscriberProcesses::Start() {
  auto s = std::make_shared<SubscriberProcess>();
  subscribers_.push_back(s);
  for (auto& memory : s->memories) {
    memory.values.resize(world_.modelled ? 0 : world_.elements);
    memory.held = SubscribedValues(world_.slice_ranges.size());
  }
  Join(s);
}

void SubscriberProcesses::Join(const SubscriberPtr& s) {
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

void SubscriberProcesses::AskToJoin(const SubscriberPtr& s) {
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

void SubscriberProcesses::SendHeartbeat(const SubscriberPtr& s) {
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

void SubscriberProcesses::Wake(const SubscriberPtr& s) {
  if (!s->joined) return;
  if (s->machine->next_timer() <= now()) ExecuteAll(s, s->machine->OnTimer(now()));
  if (!s->joined) return;
  if (!s->heartbeat_in_flight) {
    const Duration gap = s->machine->HeartbeatUrgent() ? kUrgentSubscriberGap : options_.heartbeat_interval;
    if (s->last_heartbeat + gap <= now()) return SendHeartbeat(s);
    WakeAt(s, s->last_heartbeat + gap);
  }
  if (const Time next = s->machine->next_timer(); next != Time::max())
    WakeAt(s, std::max(next, now() + std::chrono::milliseconds(1)));
}

void SubscriberProcesses::WakeAt(const SubscriberPtr& s, Time at) {
  if (s->wake_at <= at) return;
  s->wake_at = at;
  ScheduleIn(s, at - now(), [this, s, at] {
    if (s->wake_at != at) return;
    s->wake_at = Time::max();
    Wake(s);
  });
}

void SubscriberProcesses::ExecuteAll(const SubscriberPtr& s, const SubscriberActions& actions) {
  const uint32_t incarnation = s->incarnation;
  for (const SubscriberAction& action : actions) {
    if (incarnation != s->incarnation || world_.done) return;
    std::visit([&](const auto& a) { Execute(s, a); }, action);
  }
}

void SubscriberProcesses::Execute(const SubscriberPtr& s, const StopRole&) {
  Join(s);
}

void SubscriberProcesses::Execute(const SubscriberPtr& s, const Disconnect& a) {
  ++s->connections[a.server];
  all_.pulls.ForgetFrom(s, a.server);
}

void SubscriberProcesses::Execute(const SubscriberPtr& s, const BeginSweep&) {
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

void SubscriberProcesses::Execute(const SubscriberPtr& s, const CompleteSweep& a) {
  ++counts_.follow_rounds;
  if (a.changed) ++counts_.follow_changes;
  if (s->last_asked) counts_.follow_gap = std::max(counts_.follow_gap, a.asked - *s->last_asked);
  s->last_asked = a.asked;
  if (options_.check) CheckCompleted(s);
  if (world_.hooks.on_followed) world_.hooks.on_followed(now(), a.asked);
}

// Completed values must be those that the servers had when they were asked, or later.
void SubscriberProcesses::CheckCompleted(const SubscriberPtr& s) {
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
    if (!all_.pulls.WasSent(has, values))
      return Violate(Invariant::kSubscribersCurrent, what() + " has values that no server had");
  }
}

void SubscriberProcesses::Execute(const SubscriberPtr& s, const SendPush& a) {
  all_.pulls.Send(s, a);
}

void SubscriberProcesses::OnFailed(const SubscriberPtr& s, NodeId server, uint64_t sequence) {
  ExecuteAll(s, s->machine->OnPushFailed(now(), server, sequence));
  Wake(s);
}

void SubscriberProcesses::OnReply(const SubscriberPtr& s, NodeId server, const PushReply& reply,
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

void SubscriberProcesses::InjectFaults() {
  if (subscribers_.empty()) return;
  queue_.After(FromSeconds(rng_.Exponential(3 * Seconds(options_.faults.fault_interval))), [this] {
    if (!world_.Faulty() || world_.done) return;
    InjectFaults();
    const SubscriberPtr& s = subscribers_[rng_.Below(subscribers_.size())];
    const double what = rng_.Uniform();
    if (what < 0.4) {
      all_.outages.Pause(s.get(), all_.outages.DrawPause());
    } else if (what < 0.7) {
      s->cut_off_until = now() + Between(100, 4000);
    } else {
      Join(s);
    }
  });
}

}  // namespace leat::sim
