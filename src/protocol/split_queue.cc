#include "protocol/split_queue.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "base/check.h"

namespace leat::protocol {

namespace {

// The second heartbeat after a release was made after the first was answered, so after the release.
constexpr uint64_t kBeatsToSettle = 2;

std::string Text(Position at) {
  return "epoch " + std::to_string(at.epoch) + " offset " + std::to_string(at.offset);
}

}  // namespace

SplitQueue::SplitQueue(const CutRules& rules, size_t partitions, Duration tail_wait)
    : rules_(rules), tail_wait_(tail_wait), partitions_(partitions) {}

// ---- the stream

void SplitQueue::Start(const std::vector<Position>& start) {
  LEAT_CHECK(start.size() == partitions_.size());
  for (size_t p = 0; p < partitions_.size(); ++p) {
    partitions_[p].first = start[p].offset;
    partitions_[p].at = start[p];
  }
  started_ = true;
}

void SplitQueue::Restore(const std::vector<Position>& watermark, std::vector<Cut> cuts) {
  LEAT_CHECK(started_ && watermark.size() == partitions_.size());
  for (size_t p = 0; p < partitions_.size(); ++p) partitions_[p].at = watermark[p];
  std::sort(cuts.begin(), cuts.end(), [](const Cut& a, const Cut& b) {
    return std::pair(a.partition, a.begin) < std::pair(b.partition, b.begin);
  });
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  for (const Cut& cut : cuts) {
    if (cut.partition >= partitions_.size() || !cut.valid()) {
      throw std::invalid_argument("the journal holds a cut that is none, in partition " +
                                  std::to_string(cut.partition));
    }
    Partition& partition = partitions_[cut.partition];
    if (cut.next() <= partition.at && partition.splits.empty()) continue;  // before the watermark
    if (cut.after != partition.at) {
      throw std::invalid_argument("the journal's cuts of partition " + std::to_string(cut.partition) +
                                  " do not join: one follows " + Text(cut.after) + ", the last ended at " +
                                  Text(partition.at));
    }
    Enter(cut);
  }
}

void SplitQueue::OnRange(Time now, const StreamRange& range) {
  if (range.partition >= partitions_.size()) return;
  Partition& partition = partitions_[range.partition];
  partition.known = true;
  partition.sealed = range.sealed;
  partition.end = range.end;
  if (!started_) partition.first = range.begin;
  if (!partition.tail_since && range.end > partition.at.offset) partition.tail_since = now;
}

std::optional<std::vector<Position>> SplitQueue::FirstOffsets() const {
  for (const Partition& partition : partitions_) {
    if (!partition.known) return std::nullopt;
  }
  return start();
}

std::vector<Position> SplitQueue::start() const {
  std::vector<Position> start;
  for (const Partition& partition : partitions_) start.push_back({0, partition.first});
  return start;
}

bool SplitQueue::Exhausted() const {
  return started_ && std::all_of(partitions_.begin(), partitions_.end(), [&](const Partition& p) {
           return p.known && protocol::Exhausted(rules_, p.at, p.first, p.end, p.sealed);
         });
}

std::vector<Position> SplitQueue::Uncut() const {
  std::vector<Position> uncut;
  for (const Partition& partition : partitions_) uncut.push_back(partition.at);
  return uncut;
}

uint64_t SplitQueue::Lag(const std::vector<Position>& watermark) const {
  uint64_t lag = 0;
  for (size_t p = 0; p < partitions_.size() && started_; ++p) {
    const Partition& partition = partitions_[p];
    if (partition.end > watermark[p].offset) lag += partition.end - watermark[p].offset;
    const uint64_t passed = watermark[p].epoch + uint64_t{1};
    if (partition.end > partition.first && rules_.epochs > passed) {
      lag += (rules_.epochs - passed) * (partition.end - partition.first);
    }
  }
  return lag;
}

// ---- cuts

SplitQueue::Key SplitQueue::KeyOf(const Cut& cut) const {
  const uint64_t first = partitions_[cut.partition].first;
  return {cut.begin.epoch, cut.begin.offset - std::min(first, cut.begin.offset), cut.partition};
}

void SplitQueue::Enter(const Cut& cut) {
  Partition& partition = partitions_[cut.partition];
  partition.at = cut.next();
  Split& split = partition.splits[cut.begin];
  split.cut = cut;
  Free(&split);
}

void SplitQueue::Free(Split* split) {
  split->stage = Stage::kFree;
  split->released_at.clear();
  free_[KeyOf(split->cut)] = {split->cut.partition, split->cut.begin};
}

bool SplitQueue::CutOne(Time now, bool short_tails, std::vector<Cut>* made) {
  std::optional<Cut> least;
  for (uint32_t p = 0; p < partitions_.size(); ++p) {
    const Partition& partition = partitions_[p];
    if (!partition.known) continue;
    const bool short_tail = short_tails && partition.tail_since && now - *partition.tail_since >= tail_wait_;
    const auto cut =
        NextCut(rules_, p, partition.at, partition.first, partition.end, partition.sealed, short_tail);
    if (cut && (!least || KeyOf(*cut) < KeyOf(*least))) least = cut;
  }
  if (!least) return false;
  Enter(*least);
  Partition& partition = partitions_[least->partition];
  partition.tail_since.reset();
  if (partition.end > partition.at.offset) partition.tail_since = now;
  made->push_back(*least);
  return true;
}

std::vector<Cut> SplitQueue::CutMore(Time now, size_t demand, size_t ahead) {
  std::vector<Cut> made;
  if (!started_ || free_.size() >= demand) return made;
  while (free_.size() < ahead && CutOne(now, false, &made)) {
  }
  while (free_.size() < demand && CutOne(now, true, &made)) {
  }
  return made;
}

std::vector<Cut> SplitQueue::Open(const std::vector<Position>& watermark) const {
  std::vector<Cut> open;
  for (size_t p = 0; p < partitions_.size(); ++p) {
    for (const auto& [begin, split] : partitions_[p].splits) {
      if (split.cut.next() > watermark[p]) open.push_back(split.cut);
    }
  }
  return open;
}

void SplitQueue::DropBefore(const std::vector<Position>& watermark) {
  for (size_t p = 0; p < partitions_.size(); ++p) {
    auto& splits = partitions_[p].splits;
    for (auto at = splits.begin(); at != splits.end() && at->second.cut.next() <= watermark[p];) {
      const Split& split = at->second;
      // One that a worker still holds goes when the worker has let go of it.
      if (split.stage == Stage::kLeased || split.stage == Stage::kReleased) {
        ++at;
        continue;
      }
      if (split.stage == Stage::kFree) free_.erase(KeyOf(split.cut));
      at = splits.erase(at);
    }
  }
}

// ---- leases

std::optional<Lease> SplitQueue::Grant(uint64_t id, NodeId worker, const SliceMap& slices) {
  while (!free_.empty()) {
    const Place place = free_.begin()->second;
    free_.erase(free_.begin());
    Split& split = At(place);
    RunSet missing = slices.Missing(split.cut);
    if (missing.empty()) {
      split.stage = Stage::kComplete;
      continue;
    }
    if (split.granted) ++granted_again_;
    split.stage = Stage::kLeased;
    split.granted = true;
    split.lease = id;
    split.worker = worker;
    leases_[id] = place;
    workers_[worker].insert(id);
    return Lease{id, split.cut, std::move(missing)};
  }
  return std::nullopt;
}

void SplitQueue::Release(uint64_t id, NodeId worker, const Beats& beats) {
  const auto lease = leases_.find(id);
  if (lease == leases_.end() || At(lease->second).worker != worker) return;
  Split& split = At(lease->second);
  split.stage = Stage::kReleased;
  split.released_at = beats;
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

void SplitQueue::Settle(const SliceMap& slices, const Beats& beats) {
  if (!slices.ready()) return;
  for (auto at = released_.begin(); at != released_.end();) {
    Split& split = At(*at);
    if (slices.Missing(split.cut).empty()) {
      split.stage = Stage::kComplete;
    } else if (std::all_of(split.released_at.begin(), split.released_at.end(), [&](const auto& beat) {
                 const auto now = beats.find(beat.first);
                 return now == beats.end() || now->second >= beat.second + kBeatsToSettle;
               })) {
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
  for (Partition& partition : partitions_) {
    for (auto& [begin, split] : partition.splits) {
      if (split.stage == Stage::kComplete && !slices.Missing(split.cut).empty()) Free(&split);
    }
  }
}

}  // namespace leat::protocol
