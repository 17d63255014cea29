#include "train/collective/peer_all_reduce.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.h"
#include "net/address.h"

namespace leat::collective {
namespace {

using protocol::Hop;
using protocol::ReduceAction;
using protocol::ReducePath;
using protocol::Reduction;

// The maximum number of buckets that a peer may be ahead.
constexpr uint64_t kMaxAhead = 1 << 16;
constexpr size_t kMaxKept = 8;
// A step sends at most twice the gradients to a peer, and a state that is passed on has a few slots for each
// parameter.
constexpr uint64_t kModelsAhead = 8;
// The least that an early piece counts, so that empty ones are limited, too.
constexpr uint64_t kLeastEarlyCost = 4096;

uint64_t EarlyCost(uint64_t bytes) {
  return std::max(bytes, kLeastEarlyCost);
}

// Overwrites bytes that another process has just read and still has in its cache. Taking those cache lines
// back one by one costs more than bypassing the caches and reading the bytes again.
void CopyPastCaches(std::span<std::byte> to, ByteView from) {
#if defined(__SSE2__)
  constexpr size_t kLine = 64;
  if (reinterpret_cast<uintptr_t>(to.data()) % kLine == 0) {
    for (; from.size() >= kLine; from = from.subspan(kLine), to = to.subspan(kLine)) {
      const auto* const source = reinterpret_cast<const __m128i*>(from.data());
      auto* const target = reinterpret_cast<__m128i*>(to.data());
      for (size_t i = 0; i < kLine / sizeof(__m128i); ++i)
        _mm_stream_si128(target + i, _mm_loadu_si128(source + i));
    }
    _mm_sfence();
  }
#endif
  std::memcpy(to.data(), from.data(), from.size());
}

bool OnOneHost(const std::vector<std::string>& addresses) {
  return std::ranges::all_of(addresses, [&](const std::string& address) {
    return net::HostOf(address) == net::HostOf(addresses.front());
  });
}

}  // namespace

uint64_t ExchangeBytes(const std::vector<std::string>& addresses) {
  return OnOneHost(addresses) ? 16 << 10 : 64 << 10;
}

uint64_t PieceBytes(const std::vector<std::string>& addresses) {
  return OnOneHost(addresses) ? 1 << 20 : 256 << 10;
}

bool OneShotPays(const std::vector<std::string>& addresses) {
  return addresses.size() <= protocol::kMaxOneShotMembers && OnOneHost(addresses);
}

std::unique_ptr<AllReduce> MakePeerAllReduce(net::Loop& loop, net::Transport& transport, Port& port,
                                             ProcessGroupOptions group, net::Done formed,
                                             uint64_t model_bytes) {
  PeerOptions options;
  options.exchange_bytes = ExchangeBytes(group.addresses);
  options.piece_bytes = PieceBytes(group.addresses);
  options.one_shot = OneShotPays(group.addresses);
  options.max_early_bytes = std::max(options.max_early_bytes, kModelsAhead * model_bytes);
  options.group = std::move(group);
  return std::make_unique<PeerAllReduce>(loop, transport, port, std::move(options), std::move(formed));
}

PeerAllReduce::PeerAllReduce(net::Loop& loop, net::Transport& transport, Port& port, PeerOptions options,
                             net::Done formed)
    : loop_(loop),
      options_(std::move(options)),
      formed_(std::move(formed)),
      group_(loop, transport, port, options_.group, this) {}

PeerAllReduce::~PeerAllReduce() {
  *here_ = false;
  loop_.Cancel(timer_);
}

void PeerAllReduce::OnFormed() {
  loop_.Post([this, here = here_] {
    if (*here && formed_ != nullptr) std::exchange(formed_, nullptr)(Status());
  });
}

protocol::ReduceShape PeerAllReduce::ShapeOf(const Bucket& bucket) const {
  protocol::ReduceShape shape{
      .path = protocol::PathOf(bucket.order == Order::kLanes, bucket.gather_only && options_.one_shot,
                               bucket.data.size(), options_.exchange_bytes),
      .members = members(),
      .bytes = bucket.data.size(),
      .piece_bytes = options_.piece_bytes};
  shape.eager_bytes = EagerBytes(shape.path);
  return shape;
}

uint64_t PeerAllReduce::EagerBytes(ReducePath path) const {
  return path == ReducePath::kOneShot ? protocol::kOneShotEagerBytes : options_.eager_bytes;
}

PieceHeader PeerAllReduce::HeaderOf(const Running& running, const Hop& hop) const {
  const auto& shape = running.reduction.shape();
  return {.bucket = running.index,
          .bytes = shape.bytes,
          .path = shape.path,
          .reduce = running.bucket.reduce.kind,
          .phase = hop.phase,
          .piece = hop.piece};
}

PeerAllReduce::Running* PeerAllReduce::Find(uint64_t index) {
  const auto at = running_.find(index);
  return at == running_.end() ? nullptr : &at->second;
}

// ---- buckets

void PeerAllReduce::Start(Bucket bucket, net::Done done) {
  const uint64_t index = next_++;
  const ReduceOp& reduce = bucket.reduce;
  LEAT_CHECK(reduce.combine != nullptr && bucket.data.size() % reduce.element_bytes == 0);
  LEAT_CHECK(bucket.order == Order::kAny || rank() > 0 || !bucket.lanes.empty());
  for (const auto& lane : bucket.lanes) LEAT_CHECK(lane.size() == bucket.data.size());
  LEAT_CHECK(!bucket.gather_only || (bucket.order == Order::kAny && bucket.memory.size() > 0));
  LEAT_CHECK(group_.formed() || stopped_);
  if (stopped_) {
    failing_.push_back(std::move(done));
    if (!ended_.has_value()) return;  // reported by OnEnded
    loop_.Post([this, here = here_] {
      for (auto& tell : std::exchange(failing_, {})) {
        if (*here) tell(*ended_);
      }
    });
    return;
  }
  const auto shape = ShapeOf(bucket);
  // On the chain, a kAny contribution is the member's only lane.
  if (bucket.order == Order::kAny) bucket.lanes = {bucket.data};
  Running& running =
      running_.try_emplace(index, loop_, index, std::move(bucket), std::move(done), shape, rank())
          .first->second;
  running.reduction.Begin();
  for (auto ready = early_ready_.lower_bound({index, 0});
       ready != early_ready_.end() && ready->first == index; ready = early_ready_.erase(ready)) {
    running.reduction.PeerReady(ready->second);
  }
  // Pieces that arrived before the start.
  if (auto early = early_.extract(index); !early.empty()) {
    for (auto& [header, buffered_piece] : early.mapped()) {
      early_bytes_[buffered_piece.hop.peer] -= EarlyCost(buffered_piece.bytes);
      const Status status = Accept(running, header, std::move(buffered_piece));
      if (!status.ok()) return group_.Stop(status, std::nullopt);
    }
  }
  Watch();
  Proceed(running);
}

// Executes the pending actions. The bucket, and the group, may have ended afterwards.
void PeerAllReduce::Proceed(Running& running) {
  ReduceAction action;
  const uint64_t index = running.index;
  while (!stopped_ && running.reduction.Next(&action)) {
    switch (action.kind) {
      case ReduceAction::Kind::kCombine:
      case ReduceAction::Kind::kOwn:
        Combine(running, action);
        break;
      case ReduceAction::Kind::kSend:
        SendPiece(running, action.hop);
        break;
      case ReduceAction::Kind::kReady:
        group_.SendControl(action.hop.peer, MessageType::kReady, fields::Encode(BucketHeader{index}));
        break;
      case ReduceAction::Kind::kFinished:
        return Finish(index);
    }
  }
}

void PeerAllReduce::Combine(Running& running, const ReduceAction& action) {
  const Bucket& bucket = running.bucket;
  const auto range = running.reduction.piece(action.hop.piece);
  std::byte* into = bucket.data.data() + range.begin;
  const auto combine = [&](const std::byte* left, const std::byte* right) {
    bucket.reduce.combine(into, left, right, range.bytes);
  };
  std::vector<BufferedPiece>::iterator buffered_piece;
  if (action.kind == ReduceAction::Kind::kCombine) {
    buffered_piece = std::ranges::find(running.buffered, action.hop, &BufferedPiece::hop);
    LEAT_CHECK(buffered_piece != running.buffered.end());
  }
  if (running.reduction.shape().path != ReducePath::kChain) {
    const std::byte* came = buffered_piece->data();
    action.incoming_first ? combine(came, into) : combine(into, came);
  } else {
    CombineLanes(bucket, range.begin, range.bytes,
                 action.kind == ReduceAction::Kind::kOwn ? nullptr : buffered_piece->data());
  }
  if (action.kind == ReduceAction::Kind::kCombine) {
    Keep(std::move(buffered_piece->memory));
    std::swap(*buffered_piece, running.buffered.back());
    running.buffered.pop_back();
  }
}

void PeerAllReduce::SendPiece(Running& running, const Hop& hop) {
  const auto range = running.reduction.piece(hop.piece);
  group_.SendPiece(hop.peer, fields::Encode(HeaderOf(running, hop)),
                   ByteView(running.bucket.data).subspan(range.begin, range.bytes),
                   [this, index = running.index, hop, memory = running.bucket.memory](const Status& status) {
                     Running* sent = Find(index);
                     if (sent == nullptr || !status.ok()) return;  // otherwise the group reports it
                     sent->reduction.Sent(hop);
                     Proceed(*sent);
                   });
}

void PeerAllReduce::Finish(uint64_t index) {
  auto over = running_.extract(index);
  if (over.mapped().reduction.shape().path == ReducePath::kOneShot) {
    LEAT_CHECK(!own_.has_value());
    own_ = over.mapped().bucket.data;
    others_ = std::move(over.mapped().buffered);
    std::ranges::sort(others_, {},
                      [](const BufferedPiece& buffered_piece) { return buffered_piece.hop.peer; });
  }
  loop_.Post([here = here_, done = std::move(over.mapped().done)] {
    if (*here) done(Status());
  });
}

Result<std::vector<ByteView>> PeerAllReduce::Contributions() {
  if (stopped_) return Status(Code::kAborted, "the group has ended");
  std::vector<ByteView> by_rank;
  if (!own_.has_value()) return by_rank;
  for (const BufferedPiece& other : others_) by_rank.emplace_back(other.data(), other.bytes);
  by_rank.insert(by_rank.begin() + rank(), *own_);
  return by_rank;
}

void PeerAllReduce::Release() {
  own_.reset();
  for (BufferedPiece& other : std::exchange(others_, {})) {
    if (other.seen != nullptr) group_.ReleaseView(other.hop.peer);
    Keep(std::move(other.memory));
  }
}

// ---- receiving

Status PeerAllReduce::Check(const Running& running, const PieceHeader& header, const Hop& hop,
                            uint64_t payload_bytes) const {
  const PieceHeader expected = HeaderOf(running, hop);
  if (header != expected) {
    return {Code::kInvalidArgument, "rank " + std::to_string(hop.peer) + " started all-reduce " +
                                        std::to_string(header.bucket) +
                                        " with another bucket: " + std::to_string(header.bytes) +
                                        " bytes instead of " + std::to_string(expected.bytes)};
  }
  if (running.reduction.Expects(hop) == Reduction::Verdict::kWrong ||
      running.reduction.piece(hop.piece).bytes != payload_bytes) {
    return {Code::kDataLoss, "rank " + std::to_string(hop.peer) + " sent an unexpected piece"};
  }
  return {};
}

// Accepts a piece that arrived before its bucket was started.
Status PeerAllReduce::Accept(Running& running, const PieceHeader& header, BufferedPiece buffered_piece) {
  const Hop hop = buffered_piece.hop;
  LEAT_RETURN_IF_ERROR(Check(running, header, hop, buffered_piece.bytes));
  if (running.reduction.Expects(hop) == Reduction::Verdict::kInPlace) {
    const auto range = running.reduction.piece(hop.piece);
    std::memcpy(running.bucket.data.data() + range.begin, buffered_piece.memory.data.get(),
                buffered_piece.bytes);
    Keep(std::move(buffered_piece.memory));
  } else {
    running.buffered.push_back(std::move(buffered_piece));
  }
  running.reduction.Arrived(hop);
  return {};
}

// Early pieces have agreed limits, for their bucket and in total.
Status PeerAllReduce::CheckEarly(uint32_t peer, const PieceHeader& piece, uint64_t payload_bytes) const {
  uint64_t of_bucket = payload_bytes;
  if (const auto at = early_.find(piece.bucket); at != early_.end()) {
    for (const auto& other : at->second)
      of_bucket += other.buffered_piece.hop.peer == peer ? other.buffered_piece.bytes : 0;
  }
  const std::string rank = "rank " + std::to_string(peer);
  if (piece.bucket < next_ || piece.bucket - next_ > kMaxAhead || of_bucket > EagerBytes(piece.path))
    return {Code::kDataLoss, rank + " sent an unexpected piece"};
  const auto total = early_bytes_.find(peer);
  const uint64_t before = total != early_bytes_.end() ? total->second : 0;
  if (before + EarlyCost(payload_bytes) > options_.max_early_bytes) {
    return {Code::kDataLoss, rank + " sent more than " + std::to_string(options_.max_early_bytes) +
                                 " bytes of buckets that this member has not started"};
  }
  return {};
}

net::Places PeerAllReduce::OnPieceHeader(uint32_t peer, ByteView header, uint64_t payload_bytes) {
  LEAT_ASSIGN_OR_RETURN(const PieceHeader piece, fields::Decode<PieceHeader>(header, "piece of a bucket"));
  const Hop hop{peer, piece.phase, piece.piece};
  Arriving& arriving = arriving_[peer];
  arriving = {.header = piece, .buffered_piece = {.hop = hop, .memory = {}, .bytes = payload_bytes}};
  if (Running* running = Find(piece.bucket); running != nullptr) {
    if (Status status = Check(*running, piece, hop, payload_bytes); !status.ok()) {
      group_.Stop(status, std::nullopt);
      return status;
    }
    arriving.started = true;
    if (running->reduction.Expects(hop) == Reduction::Verdict::kInPlace) {
      const auto range = running->reduction.piece(hop.piece);
      return std::vector{running->bucket.data.subspan(range.begin, range.bytes)};
    }
  } else {
    LEAT_RETURN_IF_ERROR(CheckEarly(peer, piece, payload_bytes));
  }
  arriving.buffered_piece.memory = TakeMemory(payload_bytes);
  return std::vector{std::span(arriving.buffered_piece.memory.data.get(), payload_bytes)};
}

// Combines a piece at once if it is its turn, directly from the sender's memory.
bool PeerAllReduce::OnPieceView(uint32_t peer, ByteView payload) {
  Arriving& arriving = arriving_[peer];
  Running* running = Find(arriving.header.bucket);
  const uint64_t index = arriving.header.bucket;
  const bool aligned = reinterpret_cast<uintptr_t>(payload.data()) % alignof(uint64_t) == 0;
  if (aligned && arriving.header.path == ReducePath::kOneShot) {
    Keep(std::exchange(arriving.buffered_piece.memory, {}));
    arriving.buffered_piece.seen = payload.data();
    group_.HoldView(peer);
    return true;
  }
  if (running == nullptr || !arriving.started || !aligned) return false;
  if (arriving.buffered_piece.memory.data == nullptr) {
    const auto range = running->reduction.piece(arriving.buffered_piece.hop.piece);
    CopyPastCaches(running->bucket.data.subspan(range.begin, payload.size()), payload);
    return true;
  }
  arriving.over = true;
  const Hop hop = arriving.buffered_piece.hop;
  BufferedPiece& buffered_piece = running->buffered.emplace_back(std::move(arriving.buffered_piece));
  buffered_piece.seen = payload.data();
  running->reduction.Arrived(hop);
  Proceed(*running);
  running = Find(index);
  if (running == nullptr) return true;
  const auto left = std::ranges::find(running->buffered, hop, &BufferedPiece::hop);
  if (left != running->buffered.end() && left->seen != nullptr) {
    std::memcpy(left->memory.data.get(), left->seen, left->bytes);
    left->seen = nullptr;
  }
  return true;
}

void PeerAllReduce::OnPiece(uint32_t peer) {
  Arriving& arriving = arriving_[peer];
  if (arriving.over) return;
  Running* running = Find(arriving.header.bucket);
  BufferedPiece buffered_piece = std::move(arriving.buffered_piece);
  if (running == nullptr) {
    early_bytes_[peer] += EarlyCost(buffered_piece.bytes);
    early_[arriving.header.bucket].push_back({arriving.header, std::move(buffered_piece)});
    return;
  }
  if (arriving.started) {
    const Hop hop = buffered_piece.hop;
    if (buffered_piece.data() != nullptr) running->buffered.push_back(std::move(buffered_piece));
    running->reduction.Arrived(hop);
  } else if (const Status status = Accept(*running, arriving.header, std::move(buffered_piece));
             !status.ok()) {
    return group_.Stop(status, std::nullopt);
  }
  Proceed(*running);
}

PeerAllReduce::Memory PeerAllReduce::TakeMemory(uint64_t bytes) {
  if (!kept_.empty() && kept_.back().capacity >= bytes) {
    Memory memory = std::move(kept_.back());  // the most recently used, still in the cache
    kept_.pop_back();
    return memory;
  }
  const uint64_t capacity = std::max<uint64_t>(bytes, 4096);
  return {std::unique_ptr<std::byte[]>(new std::byte[capacity]), capacity};
}

void PeerAllReduce::Keep(Memory memory) {
  if (kept_.size() < kMaxKept && memory.data != nullptr) kept_.push_back(std::move(memory));
}

// ---- deadlines

void PeerAllReduce::OnControl(uint32_t peer, MessageType type, ByteView header) {
  if (type == MessageType::kAlive) {
    const auto alive = fields::Decode<Alive>(header, "answer of a member");
    if (!alive.ok()) return group_.Stop(alive.status(), peer);
    alive_[peer] = *alive;
    return;
  }
  const auto message = fields::Decode<BucketHeader>(header, "message of a member");
  if (!message.ok()) return group_.Stop(message.status(), peer);
  const uint64_t bucket = message->bucket;
  Running* running = Find(bucket);
  if (type == MessageType::kReady) {
    if (running == nullptr) {
      // Already complete (its pieces arrived although this message was late), or not started.
      if (bucket >= next_ && bucket - next_ <= kMaxAhead) early_ready_.insert({bucket, peer});
      return;
    }
    running->reduction.PeerReady(peer);
    return Proceed(*running);
  }
  Alive alive{.bucket = bucket, .started = bucket < next_};
  if (running != nullptr) {
    const auto waits_for = running->reduction.WaitsFor();
    if (!waits_for.empty()) alive.waits_for = waits_for.front();
  }
  group_.SendControl(peer, MessageType::kAlive, fields::Encode(alive));
}

void PeerAllReduce::Watch() {
  if (timer_ != 0 || running_.empty() || stopped_) return;
  const Running& oldest = running_.begin()->second;
  const Duration due = options_.deadline * (oldest.probed ? 4 : 3) / 4;
  const Duration left = oldest.since + due - loop_.Now();
  timer_ = loop_.After(std::max<Duration>(left, options_.deadline / 16), [this] {
    timer_ = 0;
    CheckDeadline();
    Watch();
  });
}

// Members waited for are probed before the deadline, so that one that replies is not blamed.
void PeerAllReduce::CheckDeadline() {
  if (running_.empty() || stopped_) return;
  Running& oldest = running_.begin()->second;
  const Duration age = loop_.Now() - oldest.since;
  if (age >= options_.deadline) {
    GiveUp(oldest, age);
  } else if (age >= options_.deadline * 3 / 4 && !oldest.probed) {
    oldest.probed = true;
    alive_.clear();
    // All of them: a member that is waited for may itself wait for one that is slow.
    for (uint32_t peer = 0; peer < members(); ++peer) {
      if (peer != rank())
        group_.SendControl(peer, MessageType::kProbe, fields::Encode(BucketHeader{oldest.index}));
    }
  }
}

void PeerAllReduce::GiveUp(Running& running, Duration age) {
  const auto waits_for = running.reduction.WaitsFor();
  const auto why = [&](uint32_t rank, const std::string& what) {
    return Status(Code::kDeadlineExceeded, "all-reduce " + std::to_string(running.index) + " of group " +
                                               std::to_string(options_.group.group) +
                                               " was not complete in time: rank " + std::to_string(rank) +
                                               " (" + options_.group.addresses[rank] + ") " + what);
  };
  for (const uint32_t peer : waits_for) {
    const auto answer = alive_.find(peer);
    if (answer == alive_.end() || answer->second.bucket != running.index)
      return group_.StopUnreachable(why(peer, "does not answer"), peer);
  }
  if (std::ranges::any_of(alive_, [&](const auto& answer) {
        return answer.second.bucket == running.index && !answer.second.started;
      })) {
    running.since = loop_.Now();
    running.probed = false;
    return;
  }
  // The peers wait for others. A peer that waits for a failed or slow member deals with it.
  if (age < options_.deadline * 5 / 4) return;
  for (const uint32_t peer : waits_for) {
    const uint32_t other = alive_[peer].waits_for;
    if (other < members() && other != rank())
      return group_.Stop(why(other, "is waited for by rank " + std::to_string(peer)), other);
  }
  const uint32_t last = waits_for.empty() ? rank() : waits_for.front();
  group_.Stop(why(last, "takes too long"), last);
}

// ---- the end

void PeerAllReduce::Abort(Status why) {
  group_.Stop(std::move(why), std::nullopt);
}

void PeerAllReduce::OnStopped() {
  stopped_ = true;
  own_.reset();
  others_.clear();
  loop_.Cancel(std::exchange(timer_, 0));
}

void PeerAllReduce::OnEnded(const Status& why) {
  ended_ = why;
  const auto here = here_;
  if (formed_ != nullptr) {
    std::exchange(formed_, nullptr)(why);
    if (!*here) return;
  }
  std::vector<net::Done> failing;
  for (auto& [index, running] : std::exchange(running_, {})) failing.push_back(std::move(running.done));
  for (auto& done : std::exchange(failing_, {})) failing.push_back(std::move(done));
  for (auto& done : failing) {
    if (*here) done(why);
  }
}

}  // namespace leat::collective
