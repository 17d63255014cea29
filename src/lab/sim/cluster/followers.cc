// Processes that follow the parameters.
#include "lab/sim/cluster/followers.h"

#include <algorithm>
#include <string>
#include <utility>

#include "lab/sim/cluster/cluster_state.h"
#include "protocol/allreduce/pull_answer.h"

namespace leat::sim {

namespace {

constexpr Duration kFollowGap = std::chrono::milliseconds(10);
// Tickets of pulls at servers; those of pushes are smaller.
constexpr uint64_t kFirstTicket = uint64_t{1} << 63;

std::string RefText(const SliceRef& ref) {
  return "incarnation " + ToString(ref.incarnation) + " version " + std::to_string(ref.version);
}

bool Older(const SliceRef& a, const SliceRef& b) {
  return std::pair(a.incarnation, a.version) < std::pair(b.incarnation, b.version);
}

}  // namespace

void Cluster::State::StartFollower() {
  auto f = std::make_shared<FollowerProcess>();
  followers.push_back(f);
  for (auto& memory : f->memories) {
    memory.values.resize(modelled ? 0 : elements);
    memory.held = FollowedValues(slice_ranges.size());
  }
  JoinFollower(f);
}

void Cluster::State::JoinFollower(const FollowerPtr& f) {
  ++f->incarnation;
  if (f->machine) f->machine->Abort();
  f->joined = f->heartbeat_in_flight = false;
  f->connections.clear();
  f->wake_at = Time::max();
  f->machine = std::make_unique<Follower>(FollowerConfig{.table = options.table,
                                                         .on_servers = options.strategy.on_servers(),
                                                         .refresh = options.refresh,
                                                         .reply_timeout = options.reply_timeout});
  ScheduleIn(f, Between(20, 200), [this, f, incarnation = f->incarnation] {
    if (incarnation == f->incarnation) AskToJoin(f);
  });
}

void Cluster::State::AskToJoin(const FollowerPtr& f) {
  JoinRequest request;
  request.role = Role::kServe;
  request.process = ~static_cast<uint64_t>(std::ranges::find(followers, f) - followers.begin());
  Call(f, request, [this, f, incarnation = f->incarnation](std::optional<ControlReply> reply) {
    if (incarnation != f->incarnation) return;
    const auto* joined = reply ? std::get_if<JoinReply>(&*reply) : nullptr;
    if (!joined || !joined->status.ok()) return JoinFollower(f);
    f->joined = true;
    f->node = joined->node;
    f->machine->OnJoined(f->node, joined->term);
    SendHeartbeat(f);
  });
}

void Cluster::State::SendHeartbeat(const FollowerPtr& f) {
  f->heartbeat_in_flight = true;
  f->last_heartbeat = now();
  Call(f, f->machine->MakeHeartbeat(),
       [this, f, incarnation = f->incarnation](std::optional<ControlReply> reply) {
         if (incarnation != f->incarnation) return;
         f->heartbeat_in_flight = false;
         const uint64_t term = f->machine->term();
         if (const auto* answer = reply ? std::get_if<ServeHeartbeatReply>(&*reply) : nullptr)
           Do(f, f->machine->OnHeartbeatReply(now(), *answer));
         if (f->joined) CheckTerm(term, f->machine->term());
         Wake(f);
       });
}

void Cluster::State::Wake(const FollowerPtr& f) {
  if (!f->joined) return;
  if (f->machine->next_timer() <= now()) Do(f, f->machine->OnTimer(now()));
  if (!f->joined) return;
  if (!f->heartbeat_in_flight) {
    const Duration gap = f->machine->HeartbeatUrgent() ? kFollowGap : options.heartbeat_interval;
    if (f->last_heartbeat + gap <= now()) return SendHeartbeat(f);
    WakeAt(f, f->last_heartbeat + gap);
  }
  if (const Time next = f->machine->next_timer(); next != Time::max())
    WakeAt(f, std::max(next, now() + std::chrono::milliseconds(1)));
}

void Cluster::State::WakeAt(const FollowerPtr& f, Time at) {
  if (f->wake_at <= at) return;
  f->wake_at = at;
  ScheduleIn(f, at - now(), [this, f, at] {
    if (f->wake_at != at) return;
    f->wake_at = Time::max();
    Wake(f);
  });
}

void Cluster::State::Do(const FollowerPtr& f, const FollowerActions& actions) {
  const uint32_t incarnation = f->incarnation;
  for (const FollowerAction& action : actions) {
    if (incarnation != f->incarnation || done) return;
    std::visit([&](const auto& a) { Act(f, a); }, action);
  }
}

void Cluster::State::Act(const FollowerPtr& f, const StopRole&) {
  JoinFollower(f);
}

void Cluster::State::Act(const FollowerPtr& f, const Disconnect& a) {
  ++f->connections[a.server];
  for (auto at = pulls.begin(); at != pulls.end();) {
    const auto here = at++;
    if (here->second.from != f || here->second.server->node != a.server) continue;
    if (here->second.server->server) here->second.server->server->Forget(here->first);
    pulls.erase(here);
  }
}

void Cluster::State::Act(const FollowerPtr& f, const BeginRound&) {
  f->filled = 1 - f->filled;
  f->placed.clear();
  const View& known = f->machine->view();
  for (uint32_t i = 0; i < slice_ranges.size(); ++i) {
    SliceRef& ref = f->placed.emplace_back(SliceRef{SliceId(i), {}, 0});
    for (const ProcessPtr& p : roles) {
      if (!p || !p->server || p->node != known.slices[i].server) continue;
      const auto there = p->server->VersionOf(SliceId(i));
      if (there && there->incarnation == known.slices[i].incarnation) ref = *there;
    }
  }
  Do(f, f->machine->OnRoom(now(), &f->memories[f->filled].held));
}

void Cluster::State::Act(const FollowerPtr& f, const CompleteRound& a) {
  ++result.follow_rounds;
  if (a.changed) ++result.follow_changes;
  if (f->last_asked) result.follow_gap = std::max(result.follow_gap, a.asked - *f->last_asked);
  f->last_asked = a.asked;
  if (options.check) CheckFollowed(f);
  if (hooks.on_followed) hooks.on_followed(now(), a.asked);
}

// Completed values must be those that the servers had when they were asked, or later.
void Cluster::State::CheckFollowed(const FollowerPtr& f) {
  const auto& memory = f->memories[f->filled];
  // Updates that no worker was told of are lost with a server, and others take their place.
  const bool unique = options.replicas < 2 || options.strategy.stepped();
  for (uint32_t i = 0; i < slice_ranges.size(); ++i) {
    const SliceRef& has = memory.held.slices[i];
    const auto what = [&] { return "slice " + std::to_string(i) + ": " + RefText(has); };
    if (options.replicas < 2 && Older(has, f->placed[i]))
      return Violate(Invariant::kFollowed,
                     what() + " is older than " + RefText(f->placed[i]) + " on its server");
    const auto before = f->completed.find(has.slice);
    if (unique && before != f->completed.end() && has.incarnation == before->second.incarnation &&
        has.version < before->second.version)
      return Violate(Invariant::kFollowed, what() + " comes after " + RefText(before->second));
    f->completed[has.slice] = has;
    if (modelled || !unique) continue;
    const ElementRange& range = slice_ranges[i];
    const auto sent = sent_values.find({has.slice, has.incarnation, has.version});
    const auto values = std::span(memory.values).subspan(range.begin, range.elements());
    if (sent == sent_values.end() || !std::ranges::equal(sent->second, values))
      return Violate(Invariant::kFollowed, what() + " has values that no server had");
  }
}

void Cluster::State::Act(const FollowerPtr& f, const SendPush& a) {
  ++result.messages;
  const uint64_t connection = f->connections[a.server];
  const auto fail = [this, f, incarnation = f->incarnation, connection, server = a.server,
                     sequence = a.request->sequence](Duration delay) {
    ScheduleIn(f, delay, [this, f, incarnation, connection, server, sequence] {
      if (incarnation != f->incarnation || f->connections[server] != connection) return;
      Do(f, f->machine->OnPushFailed(now(), server, sequence));
      Wake(f);
    });
  };
  const Duration least = options.worker_link.latency;
  if (Chance(options.faults.lost)) {
    if (!rng.Chance(0.3)) fail(Latency(least));
    return;
  }
  const auto known = address_ids.find(a.address);
  queue.After(Latency(least), [this, f, a, connection, fail, least, incarnation = f->incarnation,
                               id = known == address_ids.end() ? 0 : known->second] {
    const uint32_t slot = address_slots[id].slot;
    const ProcessPtr p = slot == AddressSlot::kNobody ? nullptr : roles[slot];
    if (!p) return fail(Latency(least));
    const auto answer = [this, f, server = a.server, connection, incarnation, least](
                            PushReply reply, std::vector<float> values) {
      if (Chance(options.faults.lost)) return;
      ScheduleIn(
          f, Latency(least),
          [this, f, server, connection, incarnation, reply = std::move(reply), values = std::move(values)] {
            if (incarnation != f->incarnation || f->connections[server] != connection) return;
            TakeValues(f, reply, values);
            Do(f, f->machine->OnPushReply(now(), server, reply));
            Wake(f);
          });
    };
    ScheduleIn(p, Duration(0), [this, f, p, request = a.request, answer] { Pulled(p, f, *request, answer); });
  });
}

void Cluster::State::TakeValues(const FollowerPtr& f, const PushReply& reply,
                                const std::vector<float>& values) {
  if (modelled) return;
  size_t at = 0;
  for (const SliceReply& slice : reply.slices) {
    if (!slice.values) continue;
    const ElementRange& range = slice_ranges[slice.slice.value];
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(at), range.elements(),
                f->memories[f->filled].values.begin() + static_cast<std::ptrdiff_t>(range.begin));
    at += range.elements();
  }
}

void Cluster::State::Pulled(const ProcessPtr& p, const FollowerPtr& f, const PushRequest& request,
                            const PullAnswer& answer) {
  if (p->group_member) {
    const GroupMember& machine = *p->group_member->machine;
    const PushReply reply = AnswerPull(request, machine.view(), machine.values());
    return answer(reply, ValuesOf(*p, reply));
  }
  if (!p->server) return;
  const Status begun = p->server->Begin(request);
  if (!begun.ok()) return Violate(Invariant::kAccepted, "a server refused a pull: " + begun.ToString());
  std::vector<SliceReply> replies;
  p->server->ApplyAll(request, {}, &replies);
  const uint64_t ticket = kFirstTicket + ++last_pull;
  auto reply = p->server->Finish(ticket, request, std::move(replies));
  if (reply) {
    auto values = ValuesOf(*p, *reply);
    answer(std::move(*reply), std::move(values));
  } else {
    pulls[ticket] = {p, f, answer};
    ScheduleIn(p, options.parked_timeout, [this, p, ticket] {
      if (!pulls.contains(ticket) || !p->server) return;
      p->server->Expire(ticket);
      TakeReady(p);
    });
  }
  TakeReady(p);
}

bool Cluster::State::AnswerPulled(const ProcessPtr& p, Server::Ready* ready) {
  if (ready->ticket < kFirstTicket) return false;
  if (auto pull = pulls.extract(ready->ticket)) {
    auto values = ValuesOf(*p, ready->reply);
    pull.mapped().answer(std::move(ready->reply), std::move(values));
  }
  return true;
}

// Values in a reply, one slice after the other.
std::vector<float> Cluster::State::ValuesOf(const RoleProcess& p, const PushReply& reply) {
  std::vector<float> values;
  if (modelled) return values;
  for (const SliceReply& slice : reply.slices) {
    if (!slice.values) continue;
    const auto held = p.server ? p.server->Values(slice.slice, slice.version).values
                               : p.group_member->parameters->values(slice.slice);
    values.insert(values.end(), held.begin(), held.end());
    if (!options.check) continue;
    const bool unique = options.replicas < 2 || options.strategy.stepped();
    auto [at, fresh] = sent_values.try_emplace({slice.slice, slice.incarnation, slice.version});
    if (!fresh && unique && !std::ranges::equal(at->second, held)) {
      Violate(Invariant::kFollowed, "slice " + ToString(slice.slice) + ": " +
                                        RefText({slice.slice, slice.incarnation, slice.version}) +
                                        " has other values than before");
    }
    at->second.assign(held.begin(), held.end());
  }
  return values;
}

// The server's process has ended, or joins again.
void Cluster::State::ForgetPulls(const ProcessPtr& server) {
  std::erase_if(pulls, [&](const auto& entry) { return entry.second.server == server; });
}

void Cluster::State::TroubleFollowers() {
  if (followers.empty()) return;
  queue.After(FromSeconds(rng.Exponential(3 * Seconds(options.faults.fault_interval))), [this] {
    if (!Faulty() || done) return;
    TroubleFollowers();
    const FollowerPtr& f = followers[rng.Below(followers.size())];
    const double what = rng.Uniform();
    if (what < 0.4) {
      Pause(f.get(), DrawPause());
    } else if (what < 0.7) {
      f->cut_off_until = now() + Between(100, 4000);
    } else {
      JoinFollower(f);
    }
  });
}

}  // namespace leat::sim
