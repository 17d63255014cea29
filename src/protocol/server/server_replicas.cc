// Slices that are on two servers. The primary takes runs and forwards what it has taken to the server of the
// replica, in its own order. There it is taken in the same way, so both have the same ledger, values and open
// steps. Nothing that the replica may lack is said to anybody: a reply waits for the replica, and it is the
// replica's server that reports the ledger. So the replica can take the primary's place at any moment.
//
// Only the coordinator ends the wait, by an order without the replica. A primary that decided by itself could
// answer what a replica lacks that has taken its place meanwhile. Such a replica refuses what the former
// primary forwards: its epoch is over.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "protocol/guards.h"
#include "protocol/server/server_state.h"

namespace leat::protocol {

namespace {

// Limit of unacknowledged forwards per link. Each worker waits for its push.
constexpr uint64_t kMaxUnacknowledged = 8192;
// Limit of primaries whose last number is known. A forgotten primary begins anew.
constexpr size_t kMaxPrimaries = 4096;

Status BadReplica(std::string what) {
  return Status(Code::kInvalidArgument, "forward: " + std::move(what));
}

}  // namespace

// ---- as the primary

Server::State::Link& Server::State::LinkTo(const ReplicaGroup& group) {
  const auto at = links.find(group.server);
  if (at != links.end() && !at->second.lost) return at->second;
  // Epochs grow, and a new one follows the loss of a link.
  Link& link = links[group.server];
  link = Link{.id = group.epoch, .address = group.address};
  return link;
}

void Server::State::TakeReplicated(const std::vector<ReplicaGroup>& groups) {
  std::vector<bool> listed(hosted_slices.size(), false);
  for (const ReplicaGroup& group : groups) {
    for (const SliceIncarnation& which : group.slices) {
      HostedSlice* const hosted = Taken(which);
      if (!hosted || group.epoch == 0) continue;
      listed[which.slice.value] = true;
      if (hosted->replica.epoch == group.epoch) continue;
      // It has all that this slice has now.
      hosted->replica = {.epoch = group.epoch, .server = group.server, .link = LinkTo(group).id};
      hot[which.slice.value].replicated = true;
      wake = true;
    }
  }
  for (size_t i = 0; i < hosted_slices.size(); ++i) {
    if (listed[i] || !hot[i].replicated) continue;
    hosted_slices[i]->replica = {};
    hot[i].replicated = false;
    wake = true;
  }
  DropUnusedLinks();
  SettleDecisions();
}

void Server::State::DropUnusedLinks() {
  std::erase_if(links, [this](const auto& entry) {
    const bool used = std::ranges::any_of(hosted_slices, [&](const auto& hosted) {
      return hosted && hosted->replica.epoch != 0 && hosted->replica.link == entry.second.id;
    });
    if (!used) forward_actions.emplace_back(DropLink{entry.first});
    return !used;
  });
}

void Server::State::LoseLink(NodeId server) {
  Link& link = links.at(server);
  if (std::exchange(link.lost, true)) return;
  for (auto& hosted : hosted_slices) {
    if (hosted && hosted->replica.epoch != 0 && hosted->replica.link == link.id) hosted->replica.lost = true;
  }
  forward_actions.emplace_back(DropLink{server});
  heartbeat_urgent = true;
}

void Server::State::ForwardTaken(const PushRequest& request, std::span<const SliceRef> slices,
                                 std::span<const std::span<const float>> gradients, Buffer memory) {
  const bool gradient = request.disposition == Disposition::kGradient && !gradients.empty();
  std::vector<NodeId> full;
  for (auto& [server, link] : links) {
    const auto forward = std::make_shared<ForwardRequest>();
    std::vector<std::span<const float>> numbers;
    for (const auto& [i, changed] : taken_now) {
      RemoteReplica& replica = hosted_slices[slices[i].slice.value]->replica;
      if (replica.link != link.id || replica.lost) continue;
      forward->push.slices.push_back(slices[i]);
      forward->epochs.push_back(replica.epoch);
      forward->versions.push_back(hosted_slices[slices[i].slice.value]->slice->version);
      replica.taken = link.sent + 1;
      if (changed) replica.changed = replica.taken;
      if (gradient) numbers.push_back(gradients[i]);
    }
    if (forward->epochs.empty()) continue;
    static_cast<PushHeader&>(forward->push) = request;
    forward->push.sequence = forward->push.version_wanted = 0;
    forward->push.want_values = forward->push.exact = false;
    forward->from = node;
    forward->link = link.id;
    forward->number = ++link.sent;
    Buffer its = memory;
    if (gradient && !its) {
      size_t bytes = 0;
      for (const auto& part : numbers) bytes += part.size_bytes();
      its = Buffer(bytes);
      std::byte* at = its.data();
      for (auto& part : numbers) {
        if (part.empty()) continue;
        std::memcpy(at, part.data(), part.size_bytes());
        part = {reinterpret_cast<const float*>(at), part.size()};
        at += part.size_bytes();
      }
    }
    forward_actions.emplace_back(Forward{server, link.address, forward, std::move(numbers), std::move(its)});
    if (link.sent - link.acknowledged > kMaxUnacknowledged) full.push_back(server);
  }
  for (const NodeId server : full) LoseLink(server);
}

void Server::State::ForwardChosen(uint64_t number, Step* step) {
  const RemoteReplica& replica = hosted_slices[0]->replica;
  const auto at = links.find(replica.server);
  if (replica.lost || at == links.end() || at->second.id != replica.link) return;
  Link& link = at->second;
  const auto forward = std::make_shared<ForwardRequest>();
  forward->from = node;
  forward->link = link.id;
  forward->number = ++link.sent;
  forward->decided.push_back({number, step->width, step->needed, step->chosen});
  step->chosen_at = {link.id, link.sent};
  forward_actions.emplace_back(Forward{replica.server, link.address, forward, {}, {}});
}

void Server::State::ForwardCompleted(const std::vector<SliceId>& changed) {
  const std::vector<DecidedStep> news = std::exchange(decided_news, {});
  for (auto& [server, link] : links) {
    if (link.lost) continue;
    const auto forward = std::make_shared<ForwardRequest>();
    for (const SliceId id : changed) {
      HostedSlice& hosted = *hosted_slices[id.value];
      if (hosted.replica.link != link.id || hosted.replica.lost) continue;
      forward->push.slices.push_back({id, hosted.slice->incarnation, 0});
      forward->epochs.push_back(hosted.replica.epoch);
      forward->versions.push_back(hosted.slice->version);
      hosted.replica.changed = link.sent + 1;
    }
    if (forward->epochs.empty() && news.empty()) continue;
    forward->decided = news;
    forward->from = node;
    forward->link = link.id;
    forward->number = ++link.sent;
    forward_actions.emplace_back(Forward{server, link.address, forward, {}, {}});
  }
}

bool Server::State::Acknowledged(const RemoteReplica& replica, uint64_t number) const {
  if (replica.epoch == 0) return true;
  const auto link = links.find(replica.server);
  const bool has = !replica.lost && link != links.end() && link->second.id == replica.link &&
                   link->second.acknowledged >= number;
  return guards::OnReplica(has);
}

bool Server::State::Confirmed(const OutgoingMove& move) const {
  return std::ranges::all_of(move.order.slices, [this](const SliceIncarnation& which) {
    const auto& hosted = hosted_slices[which.slice.value];
    if (!hosted) return false;
    const RemoteReplica& replica = hosted->replica;
    return Acknowledged(replica, std::max(replica.taken, replica.changed));
  });
}

std::vector<Server::State::LinkNumber> Server::State::NumbersOf(const std::vector<SliceReply>& slices) const {
  std::vector<LinkNumber> numbers;
  if (links.empty()) return numbers;
  for (const SliceReply& slice : slices) {
    if (!hot[slice.slice.value].replicated) continue;
    const RemoteReplica& replica = hosted_slices[slice.slice.value]->replica;
    auto at = std::ranges::find(numbers, replica.link, &LinkNumber::link);
    if (at == numbers.end()) at = numbers.insert(at, {replica.link, 0});
    at->number = std::max(at->number, replica.taken);
  }
  return numbers;
}

bool Server::State::Unconfirmed(const SliceReply& reply, const std::vector<LinkNumber>& numbers) const {
  const HotSlice& its = hot[reply.slice.value];
  if (!its.replicated || its.alive->incarnation != reply.incarnation) return false;
  if (reply.outcome == SliceOutcome::kNotHere || reply.outcome == SliceOutcome::kConflict ||
      reply.outcome == SliceOutcome::kMoving)
    return false;
  // Values that a run without steps is computed on need not last.
  if (reply.outcome == SliceOutcome::kPulled && !stepped()) return false;
  const RemoteReplica& replica = hosted_slices[reply.slice.value]->replica;
  uint64_t needed = stepped() ? replica.changed : 0;
  if (reply.outcome != SliceOutcome::kPulled) {
    const auto at = std::ranges::find(numbers, replica.link, &LinkNumber::link);
    if (at != numbers.end()) needed = std::max(needed, at->number);
  }
  return !Acknowledged(replica, needed);
}

bool Server::State::SaveConfirmed(const HostedSlice& hosted) const {
  return hosted.replica.link != hosted.to_save_at.link ||
         Acknowledged(hosted.replica, hosted.to_save_at.number);
}

// ---- with the replica

bool Server::State::HasArrived(uint64_t move, const SliceIncarnation& which) const {
  const auto at = arrived.find(move);
  return at != arrived.end() && std::ranges::any_of(at->second.slices, [&](const MovedSlice& moved) {
           return moved.slice->id == which.slice && moved.slice->incarnation == which.incarnation;
         });
}

// Without a newer copy, the primary alone has changed: its replica is what it has sent on.
bool Server::State::GoesOn(const HostedSlice& hosted, const SliceIncarnation& which, uint64_t epoch) const {
  return hosted.is_replica && hosted.slice &&
         guards::SameIncarnation(hosted.slice->incarnation, which.incarnation) &&
         epoch >= hosted.order.move && !HasArrived(epoch, which);
}

void Server::State::Promote(HostedSlice* hosted, const SliceOrder& order) {
  hosted->order = order;
  // Nobody was told of the runs that it has refused.
  hosted->is_replica = hosted->diverged = false;
  --held_replicas;
  HotSlice& its = hot[order.slice.value];
  its.alive = std::exchange(its.replica, nullptr);
  claims_outdated = wake = true;
  heartbeat_urgent = true;
}

Server::State::HostedSlice* Server::State::MakeReplica(const SliceIncarnation& which, uint64_t epoch) {
  auto& hosted = hosted_slices[which.slice.value];
  if (!HasArrived(epoch, which)) return nullptr;
  DropHostedSlice(&hosted);
  hosted.emplace();
  hosted->order = {.slice = which.slice, .incarnation = which.incarnation, .move = epoch};
  hosted->is_replica = true;
  MakeLive(&*hosted, TakeArrived(hosted->order, &*hosted));
  heartbeat_urgent = true;
  return &*hosted;
}

void Server::State::TakeReplicas(const ServerHeartbeatReply& reply) {
  lost_here.clear();
  for (const ReplicaGroup& group : reply.replicas) {
    for (const SliceIncarnation& which : group.slices) {
      if (which.slice.value >= hosted_slices.size()) continue;
      auto& hosted = hosted_slices[which.slice.value];
      if (hosted && !hosted->is_replica) continue;
      if (hosted && !hosted->diverged && GoesOn(*hosted, which, group.epoch)) {
        hosted->order.move = group.epoch;
      } else if (!MakeReplica(which, group.epoch)) {
        DropHostedSlice(&hosted);
        lost_here.push_back({which, group.epoch});
        heartbeat_urgent = true;
      }
    }
  }
}

Server::State::HostedSlice* Server::State::ReplicaOf(const SliceRef& ref, uint64_t epoch) {
  const SliceIncarnation which{ref.slice, ref.incarnation};
  auto& hosted = hosted_slices[ref.slice.value];
  if (hosted && !hosted->is_replica) return nullptr;
  if (hosted && !hosted->diverged && GoesOn(*hosted, which, epoch)) {
    hosted->order.move = epoch;
    return &*hosted;
  }
  // The primary knows before this server that the coordinator has made the replica.
  return MakeReplica(which, epoch);
}

bool Server::State::TakeForwarded(HostedSlice* hosted, const ForwardRequest& request, size_t i,
                                  std::span<const float> gradient, const Step** agreed) {
  const PushRequest& push = request.push;
  SliceOutcome outcome = SliceOutcome::kPulled;
  hosted->reach = request.versions[i];
  if (push.disposition == Disposition::kPull) {
    if (stepped()) CompleteSteps(hosted);
  } else {
    LEAT_CHECK(push.disposition != Disposition::kGradient || config.modelled ||
               gradient.size() == hosted->slice->elements);
    outcome = Take(hosted->slice.get(), push, push.slices[i], gradient, agreed);
  }
  const bool taken =
      outcome == SliceOutcome::kPulled || outcome == SliceOutcome::kApplied || outcome == SliceOutcome::kHeld;
  return taken && hosted->slice->version == request.versions[i];
}

bool Server::State::Arriving(const SliceIncarnation& which) const {
  const Slice* const replica = hot[which.slice.value].replica;
  return (replica && replica->incarnation == which.incarnation) || FindArrived(which);
}

void Server::State::ReportLost(ServerHeartbeat* heartbeat) {
  heartbeat->lost_replicas = lost_here;
  for (uint32_t i = 0; i < hosted_slices.size(); ++i) {
    const auto& hosted = hosted_slices[i];
    if (!hosted) continue;
    const SliceIncarnation which{SliceId(i), hosted->order.incarnation};
    if (hosted->diverged) heartbeat->lost_replicas.push_back({which, hosted->order.move});
    if (hosted->replica.lost) heartbeat->lost_replicas.push_back({which, hosted->replica.epoch});
    if (hot[i].alive) heartbeat->version = std::max(heartbeat->version, hot[i].alive->version);
  }
}

// ---- public interface

std::vector<ForwardAction> Server::TakeForwards() {
  return std::exchange(state_->forward_actions, {});
}

bool Server::HasReplica(SliceId slice) const {
  return slice.value < state_->hot.size() && state_->hot[slice.value].replica != nullptr;
}

bool Server::forwards() const {
  return !state_->links.empty();
}

void Server::OnForwarded(NodeId server, const ForwardReply& reply) {
  State& s = *state_;
  const auto at = s.links.find(server);
  if (at == s.links.end() || at->second.id != reply.link || at->second.lost) return;
  if (reply.broken || reply.number > at->second.sent) return s.LoseLink(server);
  at->second.acknowledged = std::max(at->second.acknowledged, reply.number);
  for (const SliceId id : reply.refused) {
    if (!s.Alive(id) || !s.hot[id.value].replicated) continue;
    State::RemoteReplica& replica = s.hosted_slices[id.value]->replica;
    if (replica.link != reply.link) continue;
    replica.lost = true;
    s.heartbeat_urgent = true;
  }
  s.SettleDecisions();
  s.wake = true;
  for (const auto& [id, move] : s.outgoing) {
    if (move.frozen == move.order.slices.size() && s.Confirmed(move)) s.heartbeat_urgent = true;
  }
}

void Server::OnForwardFailed(NodeId server, uint64_t link, const Status&) {
  State& s = *state_;
  const auto at = s.links.find(server);
  if (at != s.links.end() && at->second.id == link) s.LoseLink(server);
}

Status Server::BeginForward(const ForwardRequest& request, std::vector<uint64_t>* elements) {
  State& s = *state_;
  const PushRequest& push = request.push;
  const bool gradient = push.disposition == Disposition::kGradient;
  if (elements) elements->clear();
  if (request.epochs.size() != push.slices.size() || request.versions.size() != push.slices.size())
    return BadReplica("its slices do not fit");
  const SliceRef* before = nullptr;
  for (const SliceRef& ref : push.slices) {
    if (ref.slice.value >= s.hosted_slices.size() || (before && ref.slice <= before->slice))
      return BadReplica("slice " + ToString(ref.slice) + " is unknown or out of order");
    before = &ref;
    if (elements) elements->push_back(gradient ? s.config.table.slices[ref.slice.value].elements() : 0);
  }
  if (push.disposition > Disposition::kRejected || !push.counted.empty())
    return BadReplica("no forwarded push");
  LEAT_RETURN_IF_ERROR(s.CheckStepLane(push));
  if (push.disposition != Disposition::kPull) LEAT_RETURN_IF_ERROR(s.CheckRun(push));
  for (const DecidedStep& decided : request.decided) {
    if (!s.stepped() || !s.Valid(decided))
      return BadReplica("wrong lanes of step " + std::to_string(decided.step));
  }
  return {};
}

ForwardReply Server::TakeForward(const ForwardRequest& request,
                                 std::span<const std::span<const float>> gradients) {
  State& s = *state_;
  if (s.link_of.size() >= kMaxPrimaries && !s.link_of.contains(request.from)) s.link_of.clear();
  State::LinkNumber& last = s.link_of[request.from];
  ForwardReply reply{.link = request.link, .number = 0, .broken = false};
  const bool same = request.link == last.link;
  if (same && request.number <= last.number) {
    reply.number = last.number;
    return reply;
  }
  reply.broken = request.link < last.link || request.number != (same ? last.number : 0) + 1;
  if (reply.broken) return reply;
  last = {request.link, request.number};
  reply.number = request.number;

  const PushRequest& push = request.push;
  s.forwarding = true;
  s.TakeDecided(request.decided);
  const State::Step* agreed = nullptr;
  s.ledgers.SelectRun(push.cut, push.run);
  s.defer_updates = true;
  for (size_t i = 0; i < push.slices.size(); ++i) {
    State::HostedSlice* const hosted = s.ReplicaOf(push.slices[i], request.epochs[i]);
    const auto numbers = gradients.empty() ? std::span<const float>() : gradients[i];
    if (hosted) hosted->diverged = !s.TakeForwarded(hosted, request, i, numbers, &agreed);
    if (!hosted || hosted->diverged) reply.refused.push_back(push.slices[i].slice);
  }
  s.defer_updates = false;
  if (!s.updates.empty()) s.RunUpdates();
  s.forwarding = false;
  if (!s.decided_news.empty()) s.CompleteAll();
  if (!reply.refused.empty()) s.heartbeat_urgent = true;
  return reply;
}

}  // namespace leat::protocol
