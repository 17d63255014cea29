#include "protocol/coordinator/split_queue.h"

#include <algorithm>
#include <utility>

namespace leat::protocol {

// ---- cuts

void SplitQueue::Restore(const std::vector<Position>& watermark, std::vector<Cut> cuts) {
  for (const Cut& cut : cursors_->Restore(watermark, std::move(cuts))) Enter(cut);
}

void SplitQueue::Enter(const Cut& cut) {
  Split& split = splits_[cut.partition][cut.begin];
  split.cut = cut;
  Free(&split);
}

void SplitQueue::Free(Split* split) {
  split->stage = Stage::kFree;
  split->released_at.clear();
  free_[cursors_->KeyOf(split->cut)] = {split->cut.partition, split->cut.begin};
}

bool SplitQueue::CutOne(Time now, bool short_tails, std::vector<Cut>* made) {
  if (cursors_->Paused()) return false;
  std::optional<Cut> least;
  for (uint32_t p = 0; p < cursors_->size(); ++p) {
    const PartitionCursors::Partition& head = (*cursors_)[p];
    if (!head.known) continue;
    const bool short_tail = short_tails && cursors_->Overdue(now, p);
    const auto cut = NextCut(cursors_->rules(), p, head.at, head.first, head.end, head.sealed, short_tail);
    if (cut && (!least || cursors_->KeyOf(*cut) < cursors_->KeyOf(*least))) least = cut;
  }
  if (!least) return false;
  cursors_->Advance(now, *least);
  Enter(*least);
  made->push_back(*least);
  return true;
}

std::vector<Cut> SplitQueue::CutMore(Time now, size_t demand, size_t ahead) {
  std::vector<Cut> made;
  if (!cursors_->started() || free_.size() >= demand) return made;
  while (free_.size() < ahead && CutOne(now, false, &made)) {
  }
  while (free_.size() < demand && CutOne(now, true, &made)) {
  }
  return made;
}

std::vector<Cut> SplitQueue::Open(const std::vector<Position>& watermark) const {
  std::vector<Cut> open;
  for (size_t p = 0; p < splits_.size(); ++p) {
    for (const auto& [begin, split] : splits_[p]) {
      if (split.cut.next() > watermark[p]) open.push_back(split.cut);
    }
  }
  return open;
}

void SplitQueue::DropBefore(const std::vector<Position>& watermark) {
  for (size_t p = 0; p < splits_.size(); ++p) {
    auto& splits = splits_[p];
    for (auto at = splits.begin(); at != splits.end() && at->second.cut.next() <= watermark[p];) {
      const Split& split = at->second;
      // A split held by a worker is removed when the worker releases it.
      if (split.stage == Stage::kLeased || split.stage == Stage::kReleased) {
        ++at;
        continue;
      }
      if (split.stage == Stage::kFree) free_.erase(cursors_->KeyOf(split.cut));
      at = splits.erase(at);
    }
  }
}

// ---- leases

std::optional<Lease> SplitQueue::Grant(uint64_t id, NodeId worker, const SliceMap& slices) {
  while (!free_.empty()) {
    const SplitKey key = free_.begin()->second;
    free_.erase(free_.begin());
    Split& split = At(key);
    RunSet missing = slices.Missing(split.cut);
    if (missing.empty()) {
      split.stage = Stage::kComplete;
      continue;
    }
    if (split.granted) ++regranted_;
    split.stage = Stage::kLeased;
    split.granted = true;
    split.lease = id;
    split.worker = worker;
    leases_[id] = key;
    workers_[worker].insert(id);
    return Lease{id, split.cut, std::move(missing)};
  }
  return std::nullopt;
}

void SplitQueue::Release(uint64_t id, NodeId worker, const HeartbeatCounts& heartbeat_counts) {
  const auto lease = leases_.find(id);
  if (lease == leases_.end() || At(lease->second).worker != worker) return;
  Split& split = At(lease->second);
  split.stage = Stage::kReleased;
  split.released_at = heartbeat_counts;
  released_.insert(lease->second);
  workers_[worker].erase(id);
  leases_.erase(lease);
}

std::vector<uint64_t> SplitQueue::Reconcile(NodeId worker, std::vector<uint64_t> held) {
  std::sort(held.begin(), held.end());
  std::vector<uint64_t> revoked;
  auto& own = workers_[worker];
  for (uint64_t id : held) {
    if (!own.contains(id)) revoked.push_back(id);
  }
  for (auto at = own.begin(); at != own.end();) {
    if (std::binary_search(held.begin(), held.end(), *at)) {
      ++at;
      continue;
    }
    Split& split = At(leases_.at(*at));
    leases_.erase(*at);
    at = own.erase(at);
    split.granted = false;
    Free(&split);
  }
  return revoked;
}

void SplitQueue::Reclaim(NodeId worker) {
  const auto own = workers_.find(worker);
  if (own == workers_.end()) return;
  for (uint64_t id : own->second) {
    Free(&At(leases_.at(id)));
    leases_.erase(id);
  }
  workers_.erase(own);
}

void SplitQueue::OnServerReport(const SliceMap& slices, const HeartbeatCounts& heartbeat_counts) {
  if (!slices.ready()) return;
  for (auto at = released_.begin(); at != released_.end();) {
    Split& split = At(*at);
    if (slices.Missing(split.cut).empty()) {
      split.stage = Stage::kComplete;
    } else if (AllReportedSince(split.released_at, heartbeat_counts)) {
      Free(&split);
    } else {
      ++at;
      continue;
    }
    split.released_at.clear();
    at = released_.erase(at);
  }
}

void SplitQueue::Reconsider(const SliceMap& slices) {
  for (auto& splits : splits_) {
    for (auto& [begin, split] : splits) {
      if (split.stage == Stage::kComplete && !slices.Missing(split.cut).empty()) Free(&split);
    }
  }
}

}  // namespace leat::protocol
