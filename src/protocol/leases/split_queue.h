// The splits of strategies that train each split separately: cuts from the oldest kept watermark on, their
// leases, and those to be trained (again). Stepped strategies lease rounds instead (round_queue.h).
//
// Workers stay with their partitions, because a source that reads a partition ahead (Kafka's) discards what
// other workers train of it. Partitions with free splits, or with some to come, are shared out among the
// workers that ask for work; with more workers than partitions, several read the same. Where the copies of
// partitions are known, a worker's are near it (protocol/topology/near_partitions.h). A worker gets splits of
// other partitions only when its own have none. Splits that were leased before go first, whoever asks.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "protocol/leases/lease_book.h"
#include "protocol/leases/partition_cursors.h"
#include "protocol/topology/near_partitions.h"

namespace leat::protocol {

class SplitQueue final : public LeaseBook {
 public:
  explicit SplitQueue(PartitionCursors* cursors, const LeaseLimits& limits = {})
      : LeaseBook(limits), cursors_(cursors), splits_(cursors->size()), fresh_(cursors->size()) {}

  // ---- cuts
  // Restores the journaled cuts from `watermark` on. Throws std::invalid_argument if they contradict each
  // other.
  void Restore(const std::vector<Position>& watermark, std::vector<Cut> cuts);
  // Makes cuts, least advanced partition first, until `demand` splits are free. Live tails that have waited
  // long enough are cut short. If any cut is made, continues up to `ahead` splits, so that one journal sync
  // pays for many. Journal the cuts before calling Grant.
  std::vector<Cut> CutMore(Time now, size_t demand, size_t ahead);
  // Makes whole cuts, least advanced partition first, until `ahead` splits are free, if at most half of them
  // are: one journal sync pays for many. Journal them, too.
  std::vector<Cut> CutAhead(Time now, size_t ahead);
  std::vector<Cut> Open(const std::vector<Position>& watermark) const override;
  // Forgets what lies before a durable watermark.
  void DropBefore(const std::vector<Position>& watermark);

  // ---- workers of a former coordinator
  void Await() override;

  // ---- leases
  size_t free() const { return again_.size() + fresh_count_; }
  // Without those that the worker itself holds already, overdue.
  size_t FreeFor(NodeId worker) const { return free() - OverdueOf(worker); }
  // A split is free for the worker that was leased before, or is of one of its partitions.
  bool HasOwn(NodeId worker) const { return FindOwn(worker).has_value(); }
  // Where the copies of the partitions are (by partition), from which workers prefer those near them; empty:
  // not known. And where a worker is, before its first lease.
  void SetPartitionPlaces(std::vector<topology::PartitionPlaces> places) {
    partition_places_ = std::move(places);
  }
  void SetWorkerPlace(NodeId worker, const topology::HostPlace& place) { worker_places_[worker] = place; }
  // Leases a split that is free for the worker and that some slice lacks, with the given lease id: the least
  // advanced of those that were leased before, or else of the worker's partitions, or else of the partition
  // with the most free splits.
  std::optional<Lease> Grant(Time now, uint64_t id, NodeId worker, const SliceProgress& slices);
  // For the end of a job that is stopped. Returns how many runs only some of the slices have: the others were
  // restored, or a worker died between two pushes. Requires that the slices are ready.
  uint64_t RunsSomeSlicesLack(const SliceProgress& slices) const;
  // Leases such runs of one split that is free for the worker, if there is one.
  std::optional<Lease> LeaseRepair(Time now, uint64_t id, NodeId worker, const SliceProgress& slices);
  void Reclaim(Time now, NodeId worker) override;
  // Complete splits may become free again.
  void Reconsider(Time now, const SliceProgress& slices) override;

 private:
  using Split = Item;
  using SplitKey = std::pair<uint32_t, Position>;  // partition, begin
  using FreeSplits = std::map<PartitionCursors::Key, SplitKey>;

  Split& At(const SplitKey& key) { return splits_[key.first].at(key.second); }
  void Enter(const Cut& cut);
  void ForEach(const std::function<void(Split&)>& visit) override;
  Split* Find(const LeaseClaim& claim) override;
  void Free(Time now, Split* split) override;
  void Unfree(const Split& split) override;
  bool TakeProgress(Time, const SliceProgress&) override { return true; }
  bool IsComplete(const Split& split, const SliceProgress& slices, bool) const override {
    return slices.Complete(split.cut);
  }
  // The split to be leased next to the worker: one that was leased before, or is of one of its partitions.
  std::optional<SplitKey> FindOwn(NodeId worker) const;
  // Calls visit(place in `shared_`) for the partitions that the worker reads.
  template <class Visit>
  void ForEachShare(NodeId worker, Visit visit) const;
  std::vector<size_t> NearShares(size_t number, const std::vector<NodeId>& readers) const;
  Lease GrantRuns(Time now, uint64_t id, NodeId worker, Split* split, RunSet runs);
  bool CutOne(Time now, bool short_tails, std::vector<Cut>* made);

  PartitionCursors* cursors_;
  std::vector<std::map<Position, Split>> splits_;  // by partition
  // The free splits: those that were leased before, and by partition those that were not.
  FreeSplits again_;
  std::vector<FreeSplits> fresh_;
  size_t fresh_count_ = 0;
  // The partitions that are shared out, and the workers that share them; both in order.
  std::vector<uint32_t> shared_;
  std::vector<NodeId> readers_;
  std::vector<topology::PartitionPlaces> partition_places_;
  std::map<NodeId, topology::HostPlace> worker_places_;
  // The last assignment by places. Another one is made when partitions or readers have changed.
  struct Assignment {
    std::vector<uint32_t> partitions;
    std::vector<NodeId> readers;
    std::vector<uint32_t> reader_of;  // index in `readers`, by partition of the stream
  };
  mutable Assignment assigned_;
};

}  // namespace leat::protocol
