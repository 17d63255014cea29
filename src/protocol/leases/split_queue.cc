#include "protocol/leases/split_queue.h"

#include <algorithm>
#include <utility>

namespace leat::protocol {

namespace {

// Inserts into a sorted vector.
template <class T>
void Insert(const T& value, std::vector<T>* values) {
  const auto at = std::ranges::lower_bound(*values, value);
  if (at == values->end() || *at != value) values->insert(at, value);
}

}  // namespace

// ---- cuts

void SplitQueue::Restore(const std::vector<Position>& watermark, std::vector<Cut> cuts) {
  for (const Cut& cut : cursors_->Restore(watermark, std::move(cuts))) Enter(cut);
}

void SplitQueue::Enter(const Cut& cut) {
  Split& split = splits_[cut.partition][cut.begin];
  split.cut = cut;
  Free(Time(0), &split);
}

void SplitQueue::Free(Time, Split* split) {
  split->stage = Stage::kFree;
  split->released_at.clear();
  const Cut& cut = split->cut;
  const SplitKey key{cut.partition, cut.begin};
  if (split->granted) {
    again_[cursors_->KeyOf(cut)] = key;
  } else if (fresh_[cut.partition].try_emplace(cursors_->KeyOf(cut), key).second) {
    ++fresh_count_;
    Insert(cut.partition, &shared_);
  }
}

void SplitQueue::Unfree(const Split& split) {
  const uint32_t partition = split.cut.partition;
  const PartitionCursors::Key key = cursors_->KeyOf(split.cut);
  again_.erase(key);
  fresh_count_ -= fresh_[partition].erase(key);
  if (!fresh_[partition].empty()) return;
  const PartitionCursors::Partition& head = (*cursors_)[partition];
  const bool over = Exhausted(head.passes, head.at, head.end, head.sealed);
  if (over) std::erase(shared_, partition);
}

bool SplitQueue::CutOne(Time now, bool short_tails, std::vector<Cut>* made) {
  std::optional<Cut> least;
  for (uint32_t p = 0; p < cursors_->size(); ++p) {
    const PartitionCursors::Partition& head = (*cursors_)[p];
    if (!head.known || cursors_->Held(p)) continue;
    const bool short_tail = short_tails && cursors_->Overdue(now, p);
    const auto cut =
        NextCut(cursors_->rules(), p, head.at, head.passes, head.cut_end(), head.complete(), short_tail);
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
  if (!cursors_->started() || free() >= demand) return made;
  while (free() < ahead && CutOne(now, false, &made)) {
  }
  while (free() < demand && CutOne(now, true, &made)) {
  }
  return made;
}

std::vector<Cut> SplitQueue::CutAhead(Time now, size_t ahead) {
  std::vector<Cut> made;
  if (!cursors_->started() || free() > ahead / 2) return made;
  while (free() < ahead && CutOne(now, false, &made)) {
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
  ForgetFinished();
  for (size_t p = 0; p < splits_.size(); ++p) {
    auto& splits = splits_[p];
    for (auto at = splits.begin(); at != splits.end() && at->second.cut.next() <= watermark[p];) {
      Split& split = at->second;
      // A split held by a worker is removed when the worker releases it.
      if (split.stage == Stage::kLeased || split.stage == Stage::kReleased) {
        ++at;
        continue;
      }
      Finish(&split);
      at = splits.erase(at);
    }
  }
}

// ---- workers of a former coordinator

void SplitQueue::Await() {
  awaiting_ = true;
  ForEach([this](Split& split) {
    Unfree(split);
    split.stage = Stage::kAwaited;
  });
}

SplitQueue::Split* SplitQueue::Find(const LeaseClaim& claim) {
  if (claim.partition >= splits_.size()) return nullptr;
  const auto at = splits_[claim.partition].find(claim.begin);
  return at == splits_[claim.partition].end() ? nullptr : &at->second;
}

// ---- leases

template <class Visit>
void SplitQueue::ForEachShare(NodeId worker, Visit visit) const {
  const auto at = std::ranges::lower_bound(readers_, worker);
  const auto number = static_cast<size_t>(at - readers_.begin());
  const bool joins = at == readers_.end() || *at != worker;
  if (!partition_places_.empty()) {
    std::vector<NodeId> readers = readers_;
    if (joins) readers.insert(readers.begin() + (at - readers_.begin()), worker);
    for (const size_t place : NearShares(number, readers)) visit(place);
    return;
  }
  const size_t workers = readers_.size() + (joins ? 1 : 0);
  if (workers > shared_.size()) return visit(number % shared_.size());
  for (size_t place = number; place < shared_.size(); place += workers) visit(place);
}

std::optional<SplitQueue::SplitKey> SplitQueue::FindOwn(NodeId worker) const {
  for (const auto& [place, key] : again_) {
    if (!splits_[key.first].at(key.second).HeldBy(worker)) return key;
  }
  if (fresh_count_ == 0) return std::nullopt;
  const FreeSplits* least = nullptr;
  ForEachShare(worker, [&](size_t place) {
    const FreeSplits& splits = fresh_[shared_[place]];
    if (!splits.empty() && (least == nullptr || splits.begin()->first < least->begin()->first))
      least = &splits;
  });
  if (least == nullptr) return std::nullopt;
  return least->begin()->second;
}

std::vector<size_t> SplitQueue::NearShares(size_t number, const std::vector<NodeId>& readers) const {
  const auto place_of = [this](NodeId reader) {
    const auto known = worker_places_.find(reader);
    return known == worker_places_.end() ? topology::HostPlace() : known->second;
  };
  const auto copies_of = [this](uint32_t partition) {
    return partition < partition_places_.size() ? partition_places_[partition] : topology::PartitionPlaces();
  };
  if (assigned_.partitions != shared_ || assigned_.readers != readers) {
    std::vector<topology::HostPlace> workers;
    std::vector<topology::PartitionPlaces> partitions;
    std::vector<uint32_t> before;
    for (const NodeId reader : readers) workers.push_back(place_of(reader));
    for (const uint32_t partition : shared_) {
      partitions.push_back(copies_of(partition));
      const auto had = partition < assigned_.reader_of.size() ? assigned_.reader_of[partition] : UINT32_MAX;
      const NodeId former = had < assigned_.readers.size() ? assigned_.readers[had] : NodeId();
      before.push_back(static_cast<uint32_t>(std::ranges::find(readers, former) - readers.begin()));
    }
    const std::vector<uint32_t> reader_of = topology::NearPartitions(workers, partitions, before);
    assigned_ = {shared_, readers, std::vector<uint32_t>(splits_.size(), UINT32_MAX)};
    for (size_t place = 0; place < shared_.size(); ++place)
      assigned_.reader_of[shared_[place]] = reader_of[place];
  }
  std::vector<size_t> shares;
  for (size_t place = 0; place < shared_.size(); ++place) {
    if (assigned_.reader_of[shared_[place]] == number) shares.push_back(place);
  }
  if (!shares.empty()) return shares;
  // There are more workers than partitions: one of the nearest, different ones for those that come to here.
  std::vector<size_t> nearest;
  topology::Distance least = topology::Distance::kFar;
  for (size_t place = 0; place < shared_.size(); ++place) {
    const topology::Distance distance =
        topology::DistanceTo(place_of(readers[number]), copies_of(shared_[place]));
    if (distance < least) nearest.clear();
    least = std::min(least, distance);
    if (distance == least) nearest.push_back(place);
  }
  return {nearest[number % nearest.size()]};
}

std::optional<Lease> SplitQueue::Grant(Time now, uint64_t id, NodeId worker, const SliceProgress& slices) {
  Insert(worker, &readers_);
  for (;;) {
    auto next = FindOwn(worker);
    if (!next && fresh_count_ == 0) return std::nullopt;
    if (!next)
      next = std::ranges::max_element(fresh_, {}, [](const FreeSplits& free) { return free.size(); })
                 ->begin()
                 ->second;
    Split& split = At(*next);
    RunSet missing = slices.Missing(split.cut);
    if (!missing.empty()) return GrantRuns(now, id, worker, &split, std::move(missing));
    Finish(&split);
  }
}

Lease SplitQueue::GrantRuns(Time now, uint64_t id, NodeId worker, Split* split, RunSet runs) {
  Lend(now, split, id, worker);
  Lease lease{id, split->cut, std::move(runs)};
  lease.rate = cursors_->rates().Of(split->cut);
  lease.labels = cursors_->LabelsOf(split->cut);
  return lease;
}

std::optional<Lease> SplitQueue::LeaseRepair(Time now, uint64_t id, NodeId worker,
                                             const SliceProgress& slices) {
  for (auto& splits : splits_) {
    for (auto& [begin, split] : splits) {
      if (split.stage != Stage::kFree || split.HeldBy(worker)) continue;
      RunSet lacking = slices.RunsSomeSlicesLack(split.cut);
      if (!lacking.empty()) return GrantRuns(now, id, worker, &split, std::move(lacking));
    }
  }
  return std::nullopt;
}

uint64_t SplitQueue::RunsSomeSlicesLack(const SliceProgress& slices) const {
  uint64_t runs = 0;
  for (const auto& splits : splits_) {
    for (const auto& [begin, split] : splits) runs += slices.RunsSomeSlicesLack(split.cut).count();
  }
  return runs;
}

void SplitQueue::Reclaim(Time now, NodeId worker) {
  std::erase(readers_, worker);
  worker_places_.erase(worker);
  LeaseBook::Reclaim(now, worker);
}

void SplitQueue::Reconsider(Time now, const SliceProgress& slices) {
  ForEach([&](Split& split) {
    if (split.stage == Stage::kDone && !slices.Complete(split.cut)) Free(now, &split);
  });
}

void SplitQueue::ForEach(const std::function<void(Split&)>& visit) {
  for (auto& splits : splits_) {
    for (auto& [begin, split] : splits) visit(split);
  }
}

}  // namespace leat::protocol
