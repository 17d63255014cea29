#include "protocol/subscribers/subscriber.h"

#include <algorithm>

#include "base/check.h"
#include "protocol/guards.h"

namespace leat::protocol {

namespace {

// Pulls use at most one of so many parts of the time.
constexpr int kParts = 5;

}  // namespace

Subscriber::Subscriber(SubscriberConfig config)
    : config_(std::move(config)), done_(config_.table.slices.size()), asked_(config_.table.slices.size()) {
  progress_.interval_seconds = Seconds(config_.refresh);
}

ServeHeartbeat Subscriber::MakeHeartbeat() {
  heartbeat_urgent_ = false;
  return {.node = node_,
          .term = term_,
          .generation = view_->generation,
          .leaving = leaving_,
          .progress = progress_};
}

SubscriberActions Subscriber::OnHeartbeatReply(Time now, const ServeHeartbeatReply& reply) {
  if (stopped_ || !guards::CurrentTerm(reply.term, term_)) return {};
  if (reply.evicted || reply.stop) {
    Stop(reply.evicted && !leaving_);
    return Take();
  }
  // The next heartbeat tells the new coordinator which view is known here.
  if (std::exchange(term_, reply.term) != reply.term) {
    heartbeat_urgent_ = true;
    return {};
  }
  if (reply.drain) return Leave();
  if (reply.view) TakeView(reply.view);
  Advance(now);
  return Take();
}

void Subscriber::Stop(bool evicted) {
  stopped_ = true;
  for (auto& [server, peer] : peers_) Drop(server, &peer);
  peers_.clear();
  held_ = nullptr;
  actions_.emplace_back(StopRole{evicted});
}

void Subscriber::TakeView(const Shared<View>& view) {
  view_ = view;
  for (auto& [server, peer] : peers_) {
    if (view_->Find(server) == nullptr) Drop(server, &peer);
  }
  std::erase_if(peers_, [this](const auto& entry) { return view_->Find(entry.first) == nullptr; });
  if (!config_.on_servers) ChooseMember();
  if (held_ == nullptr || !Placed()) return;
  // Asks again for slices that were restored after their answer, so that a sweep does not mix incarnations.
  for (size_t i = 0; i < done_.size(); ++i) {
    if (!done_[i] || !(held_->slices[i].incarnation < view_->slices[i].incarnation)) continue;
    done_[i] = false;
    ++open_;
  }
}

// Chooses a member with slices, which is in the group; keeps the present one while it has any.
void Subscriber::ChooseMember() {
  std::vector<NodeId> members;
  for (const SliceLocation& place : view_->slices) {
    const Member* const member = view_->Find(place.server);
    if (member != nullptr && !member->address.empty()) members.push_back(place.server);
  }
  std::ranges::sort(members);
  members.erase(std::ranges::unique(members).begin(), members.end());
  if (std::ranges::binary_search(members, member_)) return;
  member_ = members.empty() ? NodeId() : members[rotation_ % members.size()];
}

void Subscriber::Advance(Time now) {
  if (stopped_ || leaving_ || !Placed()) return;
  if (held_ != nullptr) return Ask(now);
  if (awaits_room_ || now < next_sweep_) return;
  awaits_room_ = true;
  actions_.emplace_back(BeginSweep{});
}

SubscriberActions Subscriber::OnRoom(Time now, SubscribedValues* held) {
  if (!std::exchange(awaits_room_, false) || stopped_) return {};
  if (held == nullptr) {
    next_sweep_ = now + config_.room_interval;
    return {};
  }
  LEAT_CHECK(held->slices.size() == done_.size());
  held_ = held;
  // Another job, or the same from its beginning, has versions of its own.
  if (!SameRun(held->term, term_)) held->Forget();
  held->term = term_;
  done_.assign(done_.size(), false);
  open_ = done_.size();
  started_ = now;
  longest_ = Duration(0);
  Advance(now);
  return Take();
}

void Subscriber::Ask(Time now) {
  std::map<NodeId, std::vector<SliceRef>> wanted;
  for (size_t i = 0; i < done_.size(); ++i) {
    if (done_[i] || asked_[i]) continue;
    const NodeId server = config_.on_servers ? view_->slices[i].server : member_;
    if (server != NodeId()) wanted[server].push_back(held_->slices[i]);
  }
  for (auto& [server, peer] : peers_) peer.due = wanted.contains(server);
  for (auto& [server, slices] : wanted) {
    Peer& peer = peers_[server];
    peer.due = true;
    if (!peer.in_flight && peer.at <= now) Send(now, server, &peer, std::move(slices));
  }
}

void Subscriber::Send(Time now, NodeId server, Peer* peer, std::vector<SliceRef> slices) {
  const Member* const member = view_->Find(server);
  if (member == nullptr || member->address.empty()) {
    heartbeat_urgent_ = true;
    peer->at = now + config_.retry_interval;
    return;
  }
  for (const SliceRef& ref : slices) asked_[ref.slice.value] = true;
  auto request = std::make_shared<PushRequest>();
  request->sequence = ++last_sequence_;
  request->worker = node_;
  request->generation = view_->generation;
  request->slices = std::move(slices);
  peer->request = std::move(request);
  peer->in_flight = peer->contacted = true;
  peer->due = false;
  peer->sent = now;
  peer->at = now + config_.reply_timeout;
  actions_.emplace_back(SendPush{server, member->address, peer->request});
}

Subscriber::Peer* Subscriber::FindAsked(NodeId server, uint64_t sequence) {
  const auto at = peers_.find(server);
  const bool asked =
      !stopped_ && at != peers_.end() && at->second.in_flight && at->second.request->sequence == sequence;
  return asked ? &at->second : nullptr;
}

SubscriberActions Subscriber::OnPushReply(Time now, NodeId server, const PushReply& reply) {
  Peer* const peer = FindAsked(server, reply.sequence);
  if (peer == nullptr) return {};
  if (!std::ranges::equal(reply.slices, peer->request->slices, {}, &SliceReply::slice, &SliceRef::slice)) {
    DropConnection(server, peer);
    Fail(now, server, peer);
  } else {
    TakeReply(now, peer, reply);
  }
  if (held_ != nullptr && open_ == 0) Complete(now);
  Advance(now);
  return Take();
}

void Subscriber::TakeReply(Time now, Peer* peer, const PushReply& reply) {
  peer->in_flight = false;
  peer->failures = 0;
  peer->at = now;
  longest_ = std::max(longest_, now - peer->sent);
  bool missing = reply.evicted;
  for (const SliceReply& said : reply.slices) {
    const size_t i = said.slice.value;
    SliceRef& has = held_->slices[i];
    asked_[i] = false;
    if (said.values) {
      has = {said.slice, said.incarnation, said.version};
      progress_.bytes_in += config_.table.slices[i].elements() * sizeof(float);
    }
    const bool current = said.outcome == SliceOutcome::kPulled && has.incarnation == said.incarnation &&
                         has.version == said.version &&
                         !(Placed() && said.incarnation < view_->slices[i].incarnation);
    if (!current) {
      missing = true;
    } else if (!done_[i]) {
      done_[i] = true;
      --open_;
    }
  }
  if (!missing) return;
  heartbeat_urgent_ = true;
  peer->at = now + config_.retry_interval;
  if (!config_.on_servers) ChooseAnother();
}

// Its values may have been arriving.
void Subscriber::Fail(Time now, NodeId server, Peer* peer) {
  peer->in_flight = false;
  for (const SliceRef& ref : peer->request->slices) {
    const size_t i = ref.slice.value;
    asked_[i] = false;
    held_->slices[i] = {ref.slice, Incarnation(), 0};
  }
  ++progress_.retries;
  heartbeat_urgent_ = true;
  constexpr uint32_t kMaxDoublings = 16;
  const uint32_t doublings = std::min(peer->failures++, kMaxDoublings);
  peer->at = now + std::min(config_.max_retry_interval, config_.retry_interval * (1 << doublings));
  if (!config_.on_servers && server == member_) ChooseAnother();
}

SubscriberActions Subscriber::OnPushFailed(Time now, NodeId server, uint64_t sequence) {
  Peer* const peer = FindAsked(server, sequence);
  if (peer == nullptr) return {};
  Fail(now, server, peer);
  Advance(now);
  return Take();
}

SubscriberActions Subscriber::OnTimer(Time now) {
  if (stopped_) return {};
  for (auto& [server, peer] : peers_) {
    if (!peer.in_flight || peer.at > now) continue;
    DropConnection(server, &peer);
    Fail(now, server, &peer);
  }
  Advance(now);
  return Take();
}

Time Subscriber::next_timer() const {
  if (stopped_) return Time::max();
  if (held_ == nullptr) return awaits_room_ || leaving_ || !Placed() ? Time::max() : next_sweep_;
  Time next = Time::max();
  for (const auto& [server, peer] : peers_) {
    if (peer.in_flight || (peer.due && !leaving_)) next = std::min(next, peer.at);
  }
  return next;
}

void Subscriber::Complete(Time now) {
  const bool changed = last_ != held_->slices;
  last_ = held_->slices;
  held_ = nullptr;
  const auto subscribers = std::ranges::count(view_->members, Role::kServe, &Member::role);
  const Duration spared = kParts * std::max<int64_t>(subscribers, 1) * longest_;
  const Duration interval = std::max(config_.refresh, spared);
  next_sweep_ = std::max(now, started_ + interval);
  ++progress_.rounds;
  if (changed) ++progress_.changed;
  if (spared > config_.refresh) ++progress_.stretched;
  progress_.interval_seconds = Seconds(interval);
  actions_.emplace_back(CompleteSweep{started_, changed});
}

std::optional<NodeId> Subscriber::failing() const {
  for (const auto& [server, peer] : peers_) {
    if (held_ != nullptr && peer.failures > 0) return server;
  }
  return std::nullopt;
}

}  // namespace leat::protocol
