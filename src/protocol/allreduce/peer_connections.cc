#include "protocol/allreduce/peer_connections.h"

#include <algorithm>

#include "base/check.h"
#include "protocol/allreduce/reduction.h"
#include "protocol/guards.h"

namespace leat::protocol {
namespace {

size_t Index(ChannelKind kind) {
  return static_cast<size_t>(kind);
}

}  // namespace

CallVerdict JudgeCall(uint64_t said, uint64_t newest) {
  if (said > newest) return CallVerdict::kKeep;
  return guards::SameGroup(said, newest) ? CallVerdict::kAccept : CallVerdict::kReject;
}

PeerConnections::PeerConnections(uint64_t group, uint32_t members, uint32_t rank, uint32_t channels)
    : group_(group), members_(members), rank_(rank), channels_(channels) {
  LEAT_CHECK(group > 0 && rank < members && (channels == 1 || channels == 2));
  for (const uint32_t peer : ReducePeers(members, rank)) {
    Peer& made = peers_.emplace_back();
    made.rank = peer;
    for (uint32_t i = 0; peer < rank && i < channels; ++i) made.there[i] = true;
  }
  if (peers_.empty()) phase_ = Phase::kFormed;
}

const PeerConnections::Peer* PeerConnections::Find(uint32_t rank) const {
  const auto at = std::ranges::find(peers_, rank, &Peer::rank);
  return at == peers_.end() ? nullptr : &*at;
}

PeerConnections::Peer* PeerConnections::Find(uint32_t rank) {
  const auto at = std::ranges::find(peers_, rank, &Peer::rank);
  return at == peers_.end() ? nullptr : &*at;
}

bool PeerConnections::Complete(const Peer& peer) const {
  return std::all_of(peer.greeted, peer.greeted + channels_, [](bool greeted) { return greeted; });
}

std::vector<uint32_t> PeerConnections::Peers() const {
  std::vector<uint32_t> ranks;
  for (const Peer& peer : peers_) ranks.push_back(peer.rank);
  return ranks;
}

std::vector<uint32_t> PeerConnections::Calls() const {
  std::vector<uint32_t> ranks;
  for (const Peer& peer : peers_) {
    if (peer.rank < rank_) ranks.push_back(peer.rank);
  }
  return ranks;
}

// ---- forming

bool PeerConnections::Accept(const Greet& greet) {
  Peer* peer = Find(greet.rank);
  if (phase_ != Phase::kForming || greet.members != members_ || greet.rank <= rank_ || peer == nullptr ||
      Index(greet.kind) >= channels_ || peer->there[Index(greet.kind)]) {
    return false;
  }
  peer->there[Index(greet.kind)] = true;
  MarkGreeted(peer, greet.kind);
  return true;
}

bool PeerConnections::Answers(uint32_t peer, const Greet& greet) const {
  return guards::SameGroup(greet.group, group_) && greet.members == members_ && greet.rank == peer &&
         Index(greet.kind) < channels_;
}

void PeerConnections::Answered(uint32_t peer, ChannelKind kind) {
  MarkGreeted(Find(peer), kind);
}

void PeerConnections::MarkGreeted(Peer* peer, ChannelKind kind) {
  peer->greeted[Index(kind)] = true;
  if (phase_ == Phase::kForming && !Missing()) phase_ = Phase::kFormed;
}

bool PeerConnections::greeted(uint32_t peer, ChannelKind kind) const {
  const Peer* found = Find(peer);
  return found != nullptr && found->greeted[Index(kind)];
}

std::optional<uint32_t> PeerConnections::Missing() const {
  const auto at = std::ranges::find_if(peers_, [this](const Peer& peer) { return !Complete(peer); });
  return at == peers_.end() ? std::nullopt : std::optional<uint32_t>(at->rank);
}

// ---- the end

PeerConnections::Loss PeerConnections::Closed(uint32_t rank, ChannelKind kind) {
  Peer* peer = Find(rank);
  if (peer == nullptr) return Loss::kNone;
  peer->there[Index(kind)] = false;
  if (phase_ == Phase::kEnded) return Loss::kNone;
  if (!peer->there[Index(ChannelKind::kControl)]) return Loss::kPeer;
  return phase_ == Phase::kStopped ? Loss::kNone : Loss::kAwaitReason;
}

bool PeerConnections::Stop() {
  if (!running()) return false;
  phase_ = Phase::kStopped;
  return true;
}

bool PeerConnections::End() {
  if (phase_ == Phase::kEnded) return false;
  phase_ = Phase::kEnded;
  return true;
}

}  // namespace leat::protocol
