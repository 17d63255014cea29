// The splits of strategies that train each split separately: cuts from the oldest kept watermark on, their
// leases, and those to be trained (again). Stepped strategies lease rounds instead (round_queue.h).
//
// Workers stay with their partitions, because a source that reads a partition ahead (Kafka's) discards what
// other workers train of it. Partitions with free splits, or with some to come, are shared out among the
// workers that ask for work; with more workers than partitions, several read the same. Where the copies of
// partitions are known, a worker's are near it (topology/near_partitions.h). A worker gets splits of other
// partitions only when its own have none. Splits that were leased before go first, whoever asks.
//
// A split whose lease is overdue (lease_pace.h) is leased a second time, and the first result counts: the
// ledgers reject the other. It never has more than two leases at a time.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "protocol/coordinator/leases/heartbeat_counts.h"
#include "protocol/coordinator/leases/lease_pace.h"
#include "protocol/coordinator/leases/partition_cursors.h"
#include "protocol/coordinator/slice_map.h"
#include "topology/near_partitions.h"

namespace leat::protocol {

class SplitQueue {
 public:
  explicit SplitQueue(PartitionCursors* cursors, const LeaseLimits& limits = {})
      : cursors_(cursors), splits_(cursors->size()), fresh_(cursors->size()), pace_(limits) {}

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
  // The cuts that are not entirely before the watermark.
  std::vector<Cut> Open(const std::vector<Position>& watermark) const;
  // Forgets what lies before a durable watermark.
  void DropBefore(const std::vector<Position>& watermark);

  // ---- workers of a former coordinator, who may hold restored splits
  // After Restore: none of the restored splits is free until EndAwait.
  void Await();
  // A worker holds this lease. Ignored if it cannot be.
  void Adopt(Time now, NodeId worker, const LeaseClaim& claim);
  // All workers have said what they hold, or are gone. Frees what no slice reports, according to heartbeats
  // that servers made after this: a worker may have ended its lease with the former coordinator.
  void EndAwait(const HeartbeatCounts& heartbeat_counts);

  // ---- leases
  size_t free() const { return again_.size() + fresh_count_; }
  // Without those that the worker itself holds already, overdue.
  size_t FreeFor(NodeId worker) const;
  // A split is free for the worker that was leased before, or is of one of its partitions.
  bool HasOwn(NodeId worker) const { return FindOwn(worker).has_value(); }
  // Where the copies of the partitions are (by partition), from which workers prefer those near them; empty:
  // not known. And where a worker is, before its first lease.
  void SetPartitionPlaces(std::vector<topology::PartitionPlaces> places) {
    partition_places_ = std::move(places);
  }
  void SetWorkerPlace(NodeId worker, const topology::HostPlace& place) { worker_places_[worker] = place; }
  size_t leased() const { return leases_.size(); }
  uint64_t regranted() const { return regranted_; }
  uint64_t overdue() const { return overdue_; }  // leases that were overdue, since the start
  // Leases a split that is free for the worker and that some slice lacks, with the given lease id: the least
  // advanced of those that were leased before, or else of the worker's partitions, or else of the partition
  // with the most free splits.
  std::optional<Lease> Grant(Time now, uint64_t id, NodeId worker, const SliceMap& slices);
  // For the end of a job that is stopped. Returns how many runs only some of the slices have: the others were
  // restored, or a worker died between two pushes. Requires that the slices are ready.
  uint64_t Uneven(const SliceMap& slices) const;
  // Leases such runs of one split that is free for the worker, if there is one.
  std::optional<Lease> GrantUneven(Time now, uint64_t id, NodeId worker, const SliceMap& slices);
  void OnHeartbeat(Time now, NodeId worker, bool waiting) { pace_.OnHeartbeat(now, worker, waiting); }
  // Frees splits whose lease is overdue for another worker.
  void FreeOverdue(Time now);
  // The worker has ended the lease. It is leased again only if the ledgers still lack some of it, according
  // to a heartbeat that each server made after the worker's last acknowledgement.
  void Release(Time now, uint64_t id, NodeId worker, const HeartbeatCounts& heartbeat_counts);
  // Frees leases of the worker that are not in `held`: they never reached it. Returns the leases in `held`
  // that do not belong to it, to be revoked.
  std::vector<uint64_t> Reconcile(NodeId worker, std::vector<uint64_t> held);
  // The worker is gone or must stop: frees all its leases.
  void Reclaim(NodeId worker);
  // A server has reported: checks the released splits.
  void OnServerReport(const SliceMap& slices, const HeartbeatCounts& heartbeat_counts);
  // Slices have been restored with older ledgers: complete splits may become free again.
  void Reconsider(const SliceMap& slices);

 private:
  enum class Stage : uint8_t { kAwaited, kFree, kLeased, kReleased, kComplete };
  struct Split {
    Cut cut;
    Stage stage = Stage::kFree;
    std::vector<LeaseHolder> holders;  // at most two; a free split has one if its lease is overdue
    bool granted = false;              // was leased before
    HeartbeatCounts released_at;
  };
  using SplitKey = std::pair<uint32_t, Position>;  // partition, begin
  using FreeSplits = std::map<PartitionCursors::Key, SplitKey>;

  Split& At(const SplitKey& key) { return splits_[key.first].at(key.second); }
  void Enter(const Cut& cut);
  void Free(Split* split);
  void Unfree(const Split& split);
  // The split to be leased next to the worker: one that was leased before, or is of one of its partitions.
  std::optional<SplitKey> FindOwn(NodeId worker) const;
  // Calls visit(place in `shared_`) for the partitions that the worker reads.
  template <class Visit>
  void ForEachShare(NodeId worker, Visit visit) const;
  std::vector<size_t> NearShares(size_t number, const std::vector<NodeId>& readers) const;
  // One of the partition with the most free splits.
  std::optional<SplitKey> FindAny() const;
  Lease GrantRuns(Time now, uint64_t id, NodeId worker, const SplitKey& key, RunSet runs);
  void Complete(Split* split);
  void DropHolders(Split* split);
  void Remove(uint64_t lease);
  void FreeIfAbandoned(Split* split);
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
  std::map<uint64_t, SplitKey> leases_;
  std::map<NodeId, std::set<uint64_t>> workers_;  // leases by worker
  std::set<SplitKey> released_;
  LeasePace pace_;
  bool awaiting_ = false;
  uint64_t regranted_ = 0, overdue_ = 0;
};

}  // namespace leat::protocol
