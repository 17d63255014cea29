#include "protocol/slices/server/replica_forwards.h"

#include <algorithm>
#include <cstring>

#include "protocol/guards.h"

namespace leat::protocol {

namespace {

// Limit of unacknowledged forwards per link. Each worker waits for its push.
constexpr uint64_t kMaxUnacknowledged = 8192;

}  // namespace

// ---- links

ReplicaForwards::Link& ReplicaForwards::LinkTo(const ReplicaGroup& group) {
  const auto at = links_.find(group.server);
  if (at != links_.end() && !at->second.lost) return at->second;
  // Epochs grow, and a new one follows the loss of a link.
  Link& link = links_[group.server];
  link = Link{.id = group.epoch, .address = group.address};
  return link;
}

void ReplicaForwards::TakeReplicated(const std::vector<ReplicaGroup>& groups) {
  std::vector<bool> listed(slices_.size(), false);
  for (const ReplicaGroup& group : groups) {
    for (const SliceIncarnation& which : group.slices) {
      HostedSlice* const hosted = slices_.Find(which);
      if (!hosted || group.epoch == 0) continue;
      listed[which.slice.value] = true;
      if (hosted->replica.epoch == group.epoch) continue;
      // It has all that this slice has now.
      hosted->replica = {.epoch = group.epoch, .server = group.server, .link = LinkTo(group).id};
      slices_.Hot(which.slice).replicated = true;
      slices_.signals().wake_parked = true;
    }
  }
  for (uint32_t i = 0; i < slices_.size(); ++i) {
    HotSlice& hot = slices_.Hot(SliceId(i));
    if (listed[i] || !hot.replicated) continue;
    slices_.At(SliceId(i)).replica = {};
    hot.replicated = false;
    slices_.signals().wake_parked = true;
  }
  DropUnusedLinks();
}

void ReplicaForwards::DropUnusedLinks() {
  std::erase_if(links_, [this](const auto& entry) {
    const bool used = std::ranges::any_of(slices_.all(), [&](const auto& hosted) {
      return hosted && hosted->replica.epoch != 0 && hosted->replica.link == entry.second.id;
    });
    if (!used) actions_.emplace_back(DropLink{entry.first});
    return !used;
  });
}

void ReplicaForwards::LoseLink(NodeId server) {
  Link& link = links_.at(server);
  if (std::exchange(link.lost, true)) return;
  for (auto& hosted : slices_.all()) {
    if (hosted && hosted->replica.epoch != 0 && hosted->replica.link == link.id) hosted->replica.lost = true;
  }
  actions_.emplace_back(DropLink{server});
  slices_.signals().heartbeat_urgent = true;
}

// ---- forwards

void ReplicaForwards::Send(NodeId server, Link* link, const std::shared_ptr<ForwardRequest>& forward,
                           std::vector<std::span<const float>> gradients, Buffer memory) {
  forward->from = node_;
  forward->link = link->id;
  forward->number = ++link->sent;
  actions_.emplace_back(Forward{server, link->address, forward, std::move(gradients), std::move(memory)});
}

void ReplicaForwards::ForwardTaken(const PushRequest& request, std::span<const SliceRef> slices,
                                   std::span<const TakenSlice> taken,
                                   std::span<const std::span<const float>> gradients, const Buffer& memory) {
  const bool gradient = request.disposition == Disposition::kGradient && !gradients.empty();
  std::vector<NodeId> full;
  for (auto& [server, link] : links_) {
    const auto forward = std::make_shared<ForwardRequest>();
    std::vector<std::span<const float>> numbers;
    for (const auto& [i, changed] : taken) {
      HostedSlice& hosted = slices_.At(slices[i].slice);
      RemoteReplica& replica = hosted.replica;
      if (replica.link != link.id || replica.lost) continue;
      forward->push.slices.push_back(slices[i]);
      forward->epochs.push_back(replica.epoch);
      forward->versions.push_back(hosted.slice->version);
      replica.taken = link.sent + 1;
      if (changed) replica.changed = replica.taken;
      if (gradient) numbers.push_back(gradients[i]);
    }
    if (forward->epochs.empty()) continue;
    static_cast<PushHeader&>(forward->push) = request;
    forward->push.sequence = forward->push.version_wanted = 0;
    forward->push.want_values = forward->push.exact = false;
    Buffer kept = memory;
    if (gradient && !kept) {
      size_t bytes = 0;
      for (const auto& part : numbers) bytes += part.size_bytes();
      kept = Buffer(bytes);
      std::byte* at = kept.data();
      for (auto& part : numbers) {
        if (part.empty()) continue;
        std::memcpy(at, part.data(), part.size_bytes());
        part = {reinterpret_cast<const float*>(at), part.size()};
        at += part.size_bytes();
      }
    }
    Send(server, &link, forward, std::move(numbers), std::move(kept));
    if (link.sent - link.acknowledged > kMaxUnacknowledged) full.push_back(server);
  }
  for (const NodeId server : full) LoseLink(server);
}

std::optional<LinkNumber> ReplicaForwards::ForwardChosen(const DecidedStep& chosen) {
  const RemoteReplica& replica = slices_.At(SliceId(0)).replica;
  const auto at = links_.find(replica.server);
  if (replica.lost || at == links_.end() || at->second.id != replica.link) return std::nullopt;
  Link& link = at->second;
  const auto forward = std::make_shared<ForwardRequest>();
  forward->decided.push_back(chosen);
  Send(replica.server, &link, forward);
  return LinkNumber{link.id, link.sent};
}

void ReplicaForwards::ForwardDecided(const std::vector<SliceId>& changed,
                                     const std::vector<DecidedStep>& decided) {
  for (auto& [server, link] : links_) {
    if (link.lost) continue;
    const auto forward = std::make_shared<ForwardRequest>();
    for (const SliceId id : changed) {
      HostedSlice& hosted = slices_.At(id);
      if (hosted.replica.link != link.id || hosted.replica.lost) continue;
      forward->push.slices.push_back({id, hosted.slice->incarnation, 0});
      forward->epochs.push_back(hosted.replica.epoch);
      forward->versions.push_back(hosted.slice->version);
      hosted.replica.changed = link.sent + 1;
    }
    if (forward->epochs.empty() && decided.empty()) continue;
    forward->decided = decided;
    Send(server, &link, forward);
  }
}

bool ReplicaForwards::OnForwarded(NodeId server, const ForwardReply& reply) {
  const auto at = links_.find(server);
  if (at == links_.end() || at->second.id != reply.link || at->second.lost) return false;
  if (reply.broken || reply.number > at->second.sent) {
    LoseLink(server);
    return false;
  }
  at->second.acknowledged = std::max(at->second.acknowledged, reply.number);
  for (const SliceId id : reply.refused) {
    if (!slices_.Alive(id) || !slices_.Hot(id).replicated) continue;
    RemoteReplica& replica = slices_.At(id).replica;
    if (replica.link != reply.link) continue;
    replica.lost = true;
    slices_.signals().heartbeat_urgent = true;
  }
  return true;
}

// ---- acknowledgements

bool ReplicaForwards::Acknowledged(const RemoteReplica& replica, uint64_t number) const {
  if (replica.epoch == 0) return true;
  const auto link = links_.find(replica.server);
  const bool has = !replica.lost && link != links_.end() && link->second.id == replica.link &&
                   link->second.acknowledged >= number;
  return guards::OnReplica(has);
}

bool ReplicaForwards::Acknowledged(const std::vector<SliceIncarnation>& slices) const {
  return std::ranges::all_of(slices, [this](const SliceIncarnation& which) {
    const auto& hosted = slices_.all()[which.slice.value];
    if (!hosted) return false;
    const RemoteReplica& replica = hosted->replica;
    return Acknowledged(replica, std::max(replica.taken, replica.changed));
  });
}

bool ReplicaForwards::Unconfirmed(const SliceReply& reply, const std::vector<LinkNumber>& numbers) const {
  const HotSlice& hot = slices_.Hot(reply.slice);
  if (!hot.replicated || hot.alive->incarnation != reply.incarnation) return false;
  if (reply.outcome == SliceOutcome::kNotHere || reply.outcome == SliceOutcome::kConflict ||
      reply.outcome == SliceOutcome::kMoving)
    return false;
  const bool stepped = slices_.stepped();
  // Values that a run without steps is computed on need not last.
  if (reply.outcome == SliceOutcome::kPulled && !stepped) return false;
  const RemoteReplica& replica = slices_.At(reply.slice).replica;
  uint64_t needed = stepped ? replica.changed : 0;
  if (reply.outcome != SliceOutcome::kPulled) {
    const auto at = std::ranges::find(numbers, replica.link, &LinkNumber::link);
    if (at != numbers.end()) needed = std::max(needed, at->number);
  }
  return !Acknowledged(replica, needed);
}

std::vector<LinkNumber> ReplicaForwards::NumbersOf(const std::vector<SliceReply>& slices) const {
  std::vector<LinkNumber> numbers;
  if (links_.empty()) return numbers;
  for (const SliceReply& slice : slices) {
    if (!slices_.Hot(slice.slice).replicated) continue;
    const RemoteReplica& replica = slices_.At(slice.slice).replica;
    auto at = std::ranges::find(numbers, replica.link, &LinkNumber::link);
    if (at == numbers.end()) at = numbers.insert(at, {replica.link, 0});
    at->number = std::max(at->number, replica.taken);
  }
  return numbers;
}

LinkNumber ReplicaForwards::NumberOf(const HostedSlice& hosted, bool next) const {
  const auto link = links_.find(hosted.replica.server);
  const bool follows = next && link != links_.end();
  return {hosted.replica.link, follows ? link->second.sent + 1 : hosted.replica.changed};
}

}  // namespace leat::protocol
