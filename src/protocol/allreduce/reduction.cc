#include "protocol/allreduce/reduction.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "protocol/guards.h"

namespace leat::protocol {

namespace {

constexpr uint32_t kStartsAtOnce = 2;

uint64_t RoundUp(uint64_t n, uint64_t unit) {
  return (n + unit - 1) / unit * unit;
}

size_t Index(ChannelKind kind) {
  return static_cast<size_t>(kind);
}

}  // namespace

ReducePath PathOf(bool by_lanes, bool apart, uint64_t bytes, uint64_t exchange_bytes) {
  if (by_lanes) return ReducePath::kChain;
  if (apart) return ReducePath::kOneShot;
  return bytes <= exchange_bytes ? ReducePath::kExchange : ReducePath::kRing;
}

std::vector<uint32_t> ReducePeers(ReducePath path, uint32_t members, uint32_t rank) {
  std::vector<uint32_t> peers;
  const auto add = [&](uint32_t peer) {
    if (peer != rank && peer < members && std::ranges::find(peers, peer) == peers.end())
      peers.push_back(peer);
  };
  switch (path) {
    case ReducePath::kRing:
      add((rank + 1) % members);
      add((rank + members - 1) % members);
      break;
    case ReducePath::kChain:
      add(rank + 1);
      if (rank > 0) add(rank - 1);
      break;
    case ReducePath::kExchange: {
      const uint32_t power = std::bit_floor(members);
      if (rank >= power) {
        add(rank - power);
        break;
      }
      for (uint32_t bit = 1; bit < power; bit <<= 1) add(rank ^ bit);
      add(rank + power);
      break;
    }
    case ReducePath::kOneShot:
      for (uint32_t peer = 0; peer < members; ++peer) add(peer);
      break;
  }
  return peers;
}

std::vector<uint32_t> ReducePeers(uint32_t members, uint32_t rank) {
  std::vector<uint32_t> peers;
  for (const auto path :
       {ReducePath::kRing, ReducePath::kExchange, ReducePath::kChain, ReducePath::kOneShot}) {
    if (path == ReducePath::kOneShot && members > kMaxOneShotMembers) continue;
    for (const uint32_t peer : ReducePeers(path, members, rank)) {
      if (std::ranges::find(peers, peer) == peers.end()) peers.push_back(peer);
    }
  }
  return peers;
}

Reduction::Reduction(const ReduceShape& shape, uint32_t rank) : shape_(shape), rank_(rank) {
  LEAT_CHECK(shape_.path != ReducePath::kOneShot || shape_.members <= kMaxOneShotMembers);
  const uint32_t blocks = shape_.path == ReducePath::kRing ? shape_.members : 1;
  block_bytes_ = RoundUp((shape_.bytes + blocks - 1) / blocks, ReduceShape::kUnit);
  if (shape_.path == ReducePath::kExchange || shape_.path == ReducePath::kOneShot) {
    piece_bytes_ = std::max(block_bytes_, ReduceShape::kUnit);
  } else {
    // Pieces of equal size rather than full ones and a remainder.
    const uint64_t most = std::max(shape_.piece_bytes, ReduceShape::kUnit);
    const uint64_t count = std::max<uint64_t>(1, (block_bytes_ + most - 1) / most);
    piece_bytes_ =
        std::max(RoundUp((block_bytes_ + count - 1) / count, ReduceShape::kUnit), ReduceShape::kUnit);
  }
  pieces_per_block_ = static_cast<uint32_t>((block_bytes_ + piece_bytes_ - 1) / piece_bytes_);
  pieces_ = pieces_per_block_ * blocks;
  arrived_.assign(pieces_, 0);
  if (shape_.path != ReducePath::kExchange) return;
  power_ = std::bit_floor(shape_.members);
  rounds_ = static_cast<uint32_t>(std::countr_zero(power_));
}

PieceRange Reduction::piece(uint32_t i) const {
  const uint64_t block = i / pieces_per_block_;
  const uint64_t block_end = std::min((block + 1) * block_bytes_, shape_.bytes);
  const uint64_t begin = block * block_bytes_ + i % pieces_per_block_ * piece_bytes_;
  if (begin >= block_end) return {shape_.bytes, 0};
  return {begin, std::min(piece_bytes_, block_end - begin)};
}

// The number of hops in phase 0 that bring a piece of a ring here.
uint32_t Reduction::Distance(uint32_t piece) const {
  return (rank_ + shape_.members - piece / pieces_per_block_) % shape_.members;
}

Reduction::Verdict Reduction::Expects(const Hop& hop) const {
  const uint32_t n = shape_.members;
  if (hop.piece >= pieces_ || piece(hop.piece).bytes == 0 || hop.peer >= n || hop.phase > 31)
    return Verdict::kWrong;
  if ((arrived_[hop.piece] & Bit(hop)) != 0) return Verdict::kWrong;
  const auto when = [](bool holds, Verdict verdict) { return holds ? verdict : Verdict::kWrong; };
  switch (shape_.path) {
    case ReducePath::kRing: {
      if (hop.peer != (rank_ + n - 1) % n) return Verdict::kWrong;
      const uint32_t distance = Distance(hop.piece);
      if (hop.phase == 0) return when(distance > 0, Verdict::kBuffered);
      return when(hop.phase == 1 && distance + 1 < n, Verdict::kInPlace);
    }
    case ReducePath::kChain:
      if (hop.phase == 0) return when(rank_ > 0 && hop.peer == rank_ - 1, Verdict::kBuffered);
      return when(hop.phase == 1 && hop.peer == rank_ + 1, Verdict::kInPlace);
    case ReducePath::kExchange:
      if (rank_ >= power_)
        return when(hop.phase == rounds_ + 1 && hop.peer == rank_ - power_, Verdict::kInPlace);
      if (hop.phase == 0) return when(hop.peer == rank_ + power_, Verdict::kBuffered);
      return when(hop.phase <= rounds_ && hop.peer == (rank_ ^ (1u << (hop.phase - 1))), Verdict::kBuffered);
    case ReducePath::kOneShot:
      return when(hop.phase == 0 && hop.peer != rank_, Verdict::kBuffered);
  }
  return Verdict::kWrong;
}

template <class Visit>
void Reduction::ForEachExpected(const Visit& visit) const {
  const auto peers = ReducePeers(shape_.path, shape_.members, rank_);
  const uint32_t phases = shape_.path == ReducePath::kExchange ? rounds_ + 2 : 2;
  for (uint32_t i = 0; i < pieces_; ++i) {
    for (uint32_t phase = 0; phase < phases; ++phase) {
      for (const uint32_t peer : peers) {
        const Hop hop{peer, phase, i};
        if (Expects(hop) != Verdict::kWrong) visit(hop);
      }
    }
  }
}

void Reduction::Begin() {
  struct Source {
    uint32_t peer;
    uint64_t bytes;
  };
  std::vector<Source> sources;
  ForEachExpected([&](const Hop& hop) {
    ++to_arrive_;
    auto source = std::ranges::find(sources, hop.peer, &Source::peer);
    if (source == sources.end()) source = sources.insert(sources.end(), {hop.peer, 0});
    source->bytes += piece(hop.piece).bytes;
  });
  for (const auto& [peer, bytes] : sources) {
    if (bytes > shape_.eager_bytes) actions_.push_back({ReduceAction::Kind::kReady, {.peer = peer}});
  }
  const uint32_t n = shape_.members;
  if (pieces_ > 0 && shape_.path == ReducePath::kExchange && n > 1) {
    if (rank_ >= power_) {
      Send({rank_ - power_, 0, 0});
    } else if (rank_ + power_ >= n) {
      Enter(1);
    }
  }
  if (pieces_ > 0 && shape_.path == ReducePath::kOneShot) {
    for (const uint32_t peer : ReducePeers(shape_.path, n, rank_)) Send({peer, 0, 0});
  }
  for (uint32_t i = 0; i < pieces_; ++i) {
    const bool mine = shape_.path == ReducePath::kRing ? n > 1 && Distance(i) == 0 && piece(i).bytes > 0
                                                       : shape_.path == ReducePath::kChain && rank_ == 0;
    if (mine) starts_.push_back(i);
  }
  StartSome();
  CheckFinished();
}

// Starts few pieces at a time, so that pieces just combined are sent first, while they are in the cache.
void Reduction::StartSome() {
  while (!starts_.empty() && starting_ < kStartsAtOnce) {
    const uint32_t i = starts_.front();
    starts_.pop_front();
    if (shape_.path == ReducePath::kChain) actions_.push_back({ReduceAction::Kind::kOwn, {.piece = i}});
    if (shape_.members == 1) continue;
    ++starting_;
    Send({(rank_ + 1) % shape_.members, 0, i});
  }
}

void Reduction::Arrived(const Hop& hop) {
  arrived_[hop.piece] |= Bit(hop);
  --to_arrive_;
  PeerReady(hop.peer);  // it has started
  const uint32_t n = shape_.members;
  if (shape_.path == ReducePath::kExchange) {
    AdvanceExchange();
  } else if (shape_.path != ReducePath::kOneShot) {
    const bool ring = shape_.path == ReducePath::kRing;
    const bool last = ring ? Distance(hop.piece) + 1 == n : rank_ + 1 == n;  // the last rank of phase 0
    if (hop.phase == 0) {
      actions_.push_back({ReduceAction::Kind::kCombine, hop});
      if (ring) {
        Send({(rank_ + 1) % n, last ? 1u : 0u, hop.piece});
      } else {
        Send(last ? Hop{rank_ - 1, 1, hop.piece} : Hop{rank_ + 1, 0, hop.piece});
      }
    } else if (ring && Distance(hop.piece) + 2 < n) {
      Send({(rank_ + 1) % n, 1, hop.piece});
    } else if (!ring && rank_ > 0) {
      Send({rank_ - 1, 1, hop.piece});
    }
  }
  CheckFinished();
}

// A round of an exchange ends once its message has arrived and its own is sent: the memory may change then.
void Reduction::AdvanceExchange() {
  while (rank_ < power_ && round_ <= rounds_ && (arrived_[0] & (1u << round_)) != 0) {
    if (round_ > 0 && !round_sent_) return;
    const uint32_t peer = round_ == 0 ? rank_ + power_ : rank_ ^ (1u << (round_ - 1));
    actions_.push_back({ReduceAction::Kind::kCombine, {peer, round_, 0}, peer < rank_});
    Enter(round_ + 1);
  }
}

void Reduction::Enter(uint32_t round) {
  round_ = round;
  round_sent_ = false;
  if (round <= rounds_) {
    Send({rank_ ^ (1u << (round - 1)), round, 0});
  } else if (rank_ + power_ < shape_.members) {
    Send({rank_ + power_, round, 0});
  }
}

void Reduction::Sent(const Hop& hop) {
  --sending_;
  if (shape_.path == ReducePath::kOneShot) return;
  if (shape_.path == ReducePath::kExchange && hop.phase == round_) {
    round_sent_ = true;
    AdvanceExchange();
  } else if (hop.phase == 0 && (shape_.path == ReducePath::kRing ? Distance(hop.piece) : rank_) == 0) {
    --starting_;
    StartSome();
  }
  CheckFinished();
}

Reduction::Window& Reduction::WindowOf(uint32_t peer) {
  for (auto& window : windows_) {
    if (window.peer == peer) return window;
  }
  return windows_.emplace_back(Window{.peer = peer, .left = shape_.eager_bytes, .waiting = {}});
}

void Reduction::Send(const Hop& hop) {
  ++sending_;
  Window& window = WindowOf(hop.peer);
  const uint64_t bytes = piece(hop.piece).bytes;
  if (!window.ready && (!window.waiting.empty() || bytes > window.left)) {
    window.waiting.push_back(hop);
    return;
  }
  window.left -= std::min(window.left, bytes);
  actions_.push_back({ReduceAction::Kind::kSend, hop});
}

void Reduction::PeerReady(uint32_t peer) {
  Window& window = WindowOf(peer);
  window.ready = true;
  for (const auto& hop : window.waiting) actions_.push_back({ReduceAction::Kind::kSend, hop});
  window.waiting.clear();
}

void Reduction::CheckFinished() {
  // In one shot, the others may read this member's contribution for longer than it needs theirs.
  const bool sending = sending_ > 0 && shape_.path != ReducePath::kOneShot;
  if (finished_ || to_arrive_ > 0 || sending || !starts_.empty()) return;
  finished_ = true;
  actions_.push_back({ReduceAction::Kind::kFinished, {}});
}

bool Reduction::Next(ReduceAction* action) {
  if (actions_.empty()) return false;
  *action = actions_.front();
  actions_.pop_front();
  return true;
}

std::vector<uint32_t> Reduction::WaitsFor() const {
  std::vector<uint32_t> peers;
  const auto add = [&](uint32_t peer) {
    if (std::ranges::find(peers, peer) == peers.end()) peers.push_back(peer);
  };
  ForEachExpected([&](const Hop& hop) { add(hop.peer); });
  for (const auto& window : windows_) {
    if (!window.waiting.empty()) add(window.peer);
  }
  return peers;
}

std::vector<VariableRange> PlanBuckets(std::span<const uint64_t> variable_bytes, uint64_t bucket_bytes) {
  std::vector<VariableRange> buckets;
  for (size_t end = variable_bytes.size(); end > 0;) {
    size_t first = end;
    uint64_t bytes = 0;
    do {
      bytes += variable_bytes[--first];
    } while (first > 0 && bytes < bucket_bytes);
    buckets.push_back({first, end});
    end = first;
  }
  return buckets;
}

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
