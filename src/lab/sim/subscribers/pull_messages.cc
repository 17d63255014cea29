#include "lab/sim/subscribers/pull_messages.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "lab/sim/cluster/concerns.h"
#include "protocol/allreduce/group_member.h"

namespace leat::sim {

using namespace protocol;

namespace {

// Tickets of pulls at servers; those of pushes are smaller.
constexpr uint64_t kFirstTicket = uint64_t{1} << 63;

}  // namespace

void PullMessages::Send(const SubscriberPtr& s, const SendPush& a) {
  ++world_.messages;
  const uint64_t connection = s->connections[a.server];
  const auto fail = [this, s, incarnation = s->incarnation, connection, server = a.server,
                     sequence = a.request->sequence](Duration delay) {
    ScheduleIn(s, delay, [this, s, incarnation, connection, server, sequence] {
      if (incarnation != s->incarnation || s->connections[server] != connection) return;
      all_.subscribers.OnFailed(s, server, sequence);
    });
  };
  const Duration least = options_.worker_link.latency;
  if (Chance(options_.faults.lost)) {
    if (!rng_.Chance(0.3)) fail(Latency(least));
    return;
  }
  queue_.After(Latency(least), [this, s, a, connection, fail, least, incarnation = s->incarnation,
                                id = processes_.FindAddress(a.address)] {
    const ProcessPtr p = processes_.At(id);
    if (!p) return fail(Latency(least));
    const auto answer = [this, s, server = a.server, connection, incarnation, least](
                            PushReply reply, std::vector<float> values) {
      if (Chance(options_.faults.lost)) return;
      ScheduleIn(
          s, Latency(least),
          [this, s, server, connection, incarnation, reply = std::move(reply), values = std::move(values)] {
            if (incarnation != s->incarnation || s->connections[server] != connection) return;
            all_.subscribers.OnReply(s, server, reply, values);
          });
    };
    ScheduleIn(p, Duration(0), [this, s, p, request = a.request, answer] { Arrive(p, s, *request, answer); });
  });
}

void PullMessages::Arrive(const ProcessPtr& p, const SubscriberPtr& s, const PushRequest& request,
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
  const uint64_t ticket = kFirstTicket + ++last_;
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

bool PullMessages::Answer(const ProcessPtr& p, Server::Ready* ready) {
  if (ready->ticket < kFirstTicket) return false;
  if (auto pull = parked_.extract(ready->ticket)) {
    auto values = ValuesOf(*p, ready->reply);
    pull.mapped().answer(std::move(ready->reply), std::move(values));
  }
  return true;
}

void PullMessages::ForgetServer(const ProcessPtr& server) {
  std::erase_if(parked_, [&](const auto& entry) { return entry.second.server == server; });
}

void PullMessages::ForgetFrom(const SubscriberPtr& from, NodeId server) {
  for (auto at = parked_.begin(); at != parked_.end();) {
    const auto here = at++;
    if (here->second.from != from || here->second.server->node != server) continue;
    if (here->second.server->server) here->second.server->server->Forget(here->first);
    parked_.erase(here);
  }
}

bool PullMessages::WasSent(const SliceRef& ref, std::span<const float> values) const {
  const auto sent = sent_.find({ref.slice, ref.incarnation, ref.version});
  return sent != sent_.end() && std::ranges::equal(sent->second, values);
}

std::vector<float> PullMessages::ValuesOf(const RoleProcess& p, const PushReply& reply) {
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
