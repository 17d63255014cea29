#include "protocol/slices/slice_moves.h"

#include <algorithm>

namespace leat::protocol {

namespace {

// The bytes of one move follow the time that moves take.
constexpr uint64_t kLeastBytes = 64 << 10, kMostBytes = 16 << 20;
constexpr Duration kShort = std::chrono::milliseconds(40), kLong = std::chrono::milliseconds(120);
// A move that takes longer is given up: to begin with, and for each byte.
constexpr Duration kLate = std::chrono::seconds(1);
constexpr uint64_t kSlowestLink = 4 << 20;  // bytes per second
// Until the slices are frozen, if workers wait for it: at first, and after each failure twice as long.
constexpr Duration kFirstWait = std::chrono::milliseconds(250);
constexpr Duration kFirstRest = std::chrono::milliseconds(250), kLongestRest = std::chrono::seconds(30);
constexpr uint32_t kMaxDoublings = 7;

}  // namespace

MoveOrder* SliceMoves::Begin(Time now,
                             const std::function<std::optional<uint64_t>(const Planned&)>& bytes_of) {
  if (active_ || now < next_) return nullptr;
  Move move;
  for (auto at = planned_.begin(); at != planned_.end();) {
    const bool first = move.order.slices.empty();
    const auto failures = failures_.find({at->from, at->to});
    const bool fits = first ? failures == failures_.end() || now >= failures->second.until
                            : at->from == move.from && at->to == move.order.to && at->kind == move.order.kind;
    const std::optional<uint64_t> bytes = fits ? bytes_of(*at) : std::nullopt;
    if (!bytes || (!first && *bytes > 0 && move.bytes + *bytes > most_bytes_)) {
      ++at;
      continue;
    }
    if (*bytes > 0) {
      move.from = at->from;
      move.order.to = at->to;
      move.order.kind = at->kind;
      move.order.slices.push_back({at->slice, {}});
      move.bytes += *bytes;
    }
    at = planned_.erase(at);
  }
  if (move.order.slices.empty()) return nullptr;
  std::ranges::sort(move.order.slices);
  active_ = std::move(move);
  return &active_->order;
}

const MoveOrder* SliceMoves::OrderFor(Time now, NodeId server, uint64_t version) {
  if (!active_ || active_->from != server) return nullptr;
  if (!active_->ordered) active_->ordered = now;
  active_->order.version = version;
  return &active_->order;
}

void SliceMoves::OnFrozen(Time now) {
  if (!active_->frozen) active_->frozen = now;
}

bool SliceMoves::Late(Time now, bool waits) const {
  if (!active_->ordered) return false;
  if (active_->frozen) {
    const double seconds = static_cast<double>(active_->bytes) / static_cast<double>(kSlowestLink);
    return now - *active_->frozen > kLate + FromSeconds(seconds);
  }
  if (waits) return false;
  const auto failures = failures_.find({active_->from, active_->order.to});
  const uint32_t doublings =
      failures == failures_.end() ? 0 : std::min(failures->second.in_a_row, kMaxDoublings);
  return now - *active_->ordered > kFirstWait * (1 << doublings);
}

void SliceMoves::Finish(Time now) {
  const Duration took = now - active_->frozen.value_or(active_->ordered.value_or(now));
  if (took < kShort) most_bytes_ = std::min(2 * most_bytes_, kMostBytes);
  if (took > kLong) most_bytes_ = std::max(most_bytes_ / 2, kLeastBytes);
  next_ = now + kPause * took;
  moved_slices_ += active_->order.slices.size();
  if (active_->order.kind != MoveOrder::Kind::kHandOver) moved_bytes_ += active_->bytes;
  failures_.erase({active_->from, active_->order.to});
  active_.reset();
}

void SliceMoves::Cancel(Time now, bool failed) {
  const Move move = std::move(*active_);
  active_.reset();
  for (const SliceIncarnation& which : move.order.slices)
    planned_.push_back({which.slice, move.from, move.order.to, move.order.kind});
  // Workers may have waited for it.
  if (move.frozen) next_ = now + kPause * (now - *move.frozen);
  if (!failed) return;
  ++failed_;
  Failures& failures = failures_[{move.from, move.order.to}];
  const uint32_t doublings = std::min(failures.in_a_row++, kMaxDoublings);
  failures.until = now + std::min(kFirstRest * (1 << doublings), kLongestRest);
}

void SliceMoves::Forget(NodeId server) {
  std::erase_if(planned_, [&](const Planned& one) { return one.from == server || one.to == server; });
  std::erase_if(failures_, [&](const auto& entry) {
    return entry.first.first == server || entry.first.second == server;
  });
}

}  // namespace leat::protocol
