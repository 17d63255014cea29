// The coordinator's splits: cuts from the newest durable watermark on, which of them are leased to whom, and
// which are to be trained (again).
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "protocol/coordinator.h"
#include "protocol/slice_map.h"

namespace leat::protocol {

class SplitQueue {
 public:
  // Heartbeats of each server so far: what a released split waits for.
  using Beats = std::map<NodeId, uint64_t>;

  SplitQueue(const CutRules& rules, size_t partitions, Duration tail_wait);

  // ---- the stream
  bool started() const { return started_; }  // it is known where every partition starts
  void Start(const std::vector<Position>& start);
  // Cuts of a former life, from `watermark` on: in each partition each must follow the one before. Throws
  // std::invalid_argument when they contradict each other.
  void Restore(const std::vector<Position>& watermark, std::vector<Cut> cuts);
  void OnRange(Time now, const StreamRange& range);
  // Offsets that partitions start from now; nothing until all are known.
  std::optional<std::vector<Position>> FirstOffsets() const;
  std::vector<Position> start() const;
  // Every cut that the rules allow has been made. No more will come unless the stream grows.
  bool Exhausted() const;
  // Where each partition's next cut begins.
  std::vector<Position> Uncut() const;
  // Events there, in all passes that are to come, behind the watermark.
  uint64_t Lag(const std::vector<Position>& watermark) const;

  // ---- cuts
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
  uint64_t granted_again() const { return granted_again_; }
  // The least advanced split that is free and that some slice lacks, under the lease id given.
  std::optional<Lease> Grant(uint64_t id, NodeId worker, const SliceMap& slices);
  // The worker says that it has ended the lease: leased again only if the ledgers, as of a heartbeat that
  // each server has surely made after the worker's last acknowledgement, lack some of it.
  void Release(uint64_t id, NodeId worker, const Beats& beats);
  // Leases of the worker that are not in `held` never reached it: free at once. Those in `held` that are not
  // its own come back, to be revoked.
  std::vector<uint64_t> Reconcile(NodeId worker, std::vector<uint64_t> held);
  // The worker is gone, or may not go on: all its leases are free.
  void Reclaim(NodeId worker);
  // A server has reported: looks at the released splits.
  void Settle(const SliceMap& slices, const Beats& beats);
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
    Beats released_at;
  };
  struct Partition {
    bool known = false;
    bool sealed = false;
    uint64_t first = 0;  // every pass starts here
    uint64_t end = 0;
    Position at;  // the next cut follows this
    std::optional<Time> tail_since;
    std::map<Position, Split> splits;
  };
  // How far from the start, so that partitions advance together; then which.
  using Key = std::tuple<uint32_t, uint64_t, uint32_t>;
  using Place = std::pair<uint32_t, Position>;  // partition, begin

  Key KeyOf(const Cut& cut) const;
  Split& At(const Place& place) { return partitions_[place.first].splits.at(place.second); }
  void Enter(const Cut& cut);
  void Free(Split* split);
  bool CutOne(Time now, bool short_tails, std::vector<Cut>* made);

  CutRules rules_;
  Duration tail_wait_;
  bool started_ = false;
  std::vector<Partition> partitions_;
  std::map<Key, Place> free_;
  std::map<uint64_t, Place> leases_;
  std::map<NodeId, std::set<uint64_t>> workers_;  // leases of each
  std::set<Place> released_;
  uint64_t granted_again_ = 0;
};

}  // namespace leat::protocol
