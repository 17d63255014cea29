// The coordinator's splits where each is trained by itself: cuts from the newest durable watermark on, which
// of them are leased to whom, and which are to be trained (again). Stepped strategies lease rounds instead
// (round_queue.h).
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "protocol/coordinator/heartbeat_counts.h"
#include "protocol/coordinator/partition_cursors.h"
#include "protocol/coordinator/slice_map.h"

namespace leat::protocol {

class SplitQueue {
 public:
  explicit SplitQueue(PartitionCursors* cursors) : cursors_(cursors), splits_(cursors->size()) {}

  // ---- cuts
  // Cuts of a former life, from `watermark` on. Throws std::invalid_argument when they contradict each other.
  void Restore(const std::vector<Position>& watermark, std::vector<Cut> cuts);
  // New cuts, least advanced partition first, until `demand` splits are free to be leased; live tails that
  // have waited long enough are cut short for it. When it has to cut at all it goes on to `ahead`, so that a
  // journal's sync is paid once for many. They are to be journaled before Grant is called.
  std::vector<Cut> CutMore(Time now, size_t demand, size_t ahead);
  // Made, and not all before the watermark.
  std::vector<Cut> Open(const std::vector<Position>& watermark) const;
  // Nothing will ever be asked of what lies before a durable watermark.
  void DropBefore(const std::vector<Position>& watermark);

  // ---- leases
  size_t free() const { return free_.size(); }
  size_t leased() const { return leases_.size(); }
  uint64_t regranted() const { return regranted_; }
  // The least advanced split that is free and that some slice lacks, under the lease id given.
  std::optional<Lease> Grant(uint64_t id, NodeId worker, const SliceMap& slices);
  // The worker says that it has ended the lease: leased again only if the ledgers, as of a heartbeat that
  // each server has surely made after the worker's last acknowledgement, lack some of it.
  void Release(uint64_t id, NodeId worker, const HeartbeatCounts& heartbeat_counts);
  // Leases of the worker that are not in `held` never reached it: free at once. Those in `held` that are not
  // its own come back, to be revoked.
  std::vector<uint64_t> Reconcile(NodeId worker, std::vector<uint64_t> held);
  // The worker is gone, or may not go on: all its leases are free.
  void Reclaim(NodeId worker);
  // A server has reported: looks at the released splits.
  void OnServerReport(const SliceMap& slices, const HeartbeatCounts& heartbeat_counts);
  // Slices have come back with older ledgers: splits that were complete may be free again.
  void Reconsider(const SliceMap& slices);

 private:
  enum class Stage : uint8_t { kFree, kLeased, kReleased, kComplete };
  struct Split {
    Cut cut;
    Stage stage = Stage::kFree;
    uint64_t lease = 0;
    NodeId worker;
    bool granted = false;  // was leased before
    HeartbeatCounts released_at;
  };
  using SplitKey = std::pair<uint32_t, Position>;  // partition, begin

  Split& At(const SplitKey& place) { return splits_[place.first].at(place.second); }
  void Enter(const Cut& cut);
  void Free(Split* split);
  bool CutOne(Time now, bool short_tails, std::vector<Cut>* made);

  PartitionCursors* cursors_;
  std::vector<std::map<Position, Split>> splits_;  // by partition
  std::map<PartitionCursors::Key, SplitKey> free_;
  std::map<uint64_t, SplitKey> leases_;
  std::map<NodeId, std::set<uint64_t>> workers_;  // leases of each
  std::set<SplitKey> released_;
  uint64_t regranted_ = 0;
};

}  // namespace leat::protocol
