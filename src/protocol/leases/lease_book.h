// The leases of a queue of work: which workers hold which items, for how long, and what becomes of an item
// when its lease ends. SplitQueue's items are splits, RoundQueue's are the lanes of rounds; the queues keep
// the order of the work.
//
// An item whose lease is overdue is free for another worker, too, and the first result counts: the ledgers
// reject the other. It never has more than two leases at a time.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "protocol/leases/lease_settings.h"
#include "protocol/members/roster.h"
#include "protocol/slices/slice_map.h"

namespace leat::protocol {

// The lease of something that may be leased twice.
struct LeaseHolder {
  uint64_t lease = 0;
  NodeId worker;
  bool overdue = false;
};

// How long workers take for their splits, and which leases are overdue.
//
// A worker trains its leases in the order of granting. A lease's time begins when it is granted, or when the
// worker has ended the lease before it. It is overdue after four times the median of the worker's last eight
// times, but not before `shortest`; before the first of them, after `first`. Time in which the worker waits
// for others does not count: a heartbeat says whether it waits, and that holds for one interval of
// heartbeats, since a worker that computes may send none.
class LeasePace {
 public:
  explicit LeasePace(const LeaseLimits& limits) : limits_(limits) {}

  void OnGranted(Time now, NodeId worker, uint64_t lease);
  // The worker has ended the lease.
  void OnEnded(Time now, NodeId worker, uint64_t lease);
  // The lease was taken from the worker; how long it would have taken is unknown.
  void OnTaken(NodeId worker, uint64_t lease);
  void OnHeartbeat(Time now, NodeId worker, bool waiting);
  void Forget(NodeId worker) { workers_.erase(worker); }
  void Clear() { workers_.clear(); }

  // The leases that have become overdue since the last call. Each is returned once.
  std::vector<uint64_t> Overdue(Time now);

  // The time that the worker's next lease may take.
  Duration LimitOf(NodeId worker) const;

  static constexpr int kFactor = 4;

 private:
  static constexpr size_t kLast = 8;
  // Points in time are of the worker's own time, which stands still while it waits.
  struct Held {
    uint64_t lease = 0;
    Time granted{0};
    bool overdue = false;
  };
  struct Worker {
    std::deque<Held> held;  // in the order of granting
    Time last_end{0};       // end of its last lease
    Duration waited{0};
    Time last_heartbeat{0};  // by the coordinator's clock
    std::array<Duration, kLast> times{};
    size_t count = 0;  // number of `times` ever recorded

    Time Own(Time now) const { return now - waited; }
  };

  LeaseLimits limits_;
  std::map<NodeId, Worker> workers_;
};

// The unit of leasing: a split, or a lane of a round.
struct LeaseItem {
  enum class Stage : uint8_t { kAwaited, kFree, kLeased, kReleased, kDone };
  Cut cut;
  Stage stage = Stage::kFree;
  bool granted = false;              // was leased before, in this term
  std::vector<LeaseHolder> holders;  // at most two; a free item has one if its lease is overdue
  NodeId released_by;                // 0: by a worker of the former coordinator, if any had it
  HeartbeatCounts released_at;
  bool HeldBy(NodeId worker) const { return std::ranges::count(holders, worker, &LeaseHolder::worker) > 0; }
};

class LeaseBook {
 public:
  virtual ~LeaseBook() = default;

  // The cuts that are not entirely before the watermark.
  virtual std::vector<Cut> Open(const std::vector<Position>& watermark) const = 0;

  // ---- workers of a former coordinator, who may hold restored items
  // After the restoration: none of the restored items is free until EndAwait.
  virtual void Await() = 0;
  // A worker holds this lease. Ignored if it cannot be.
  void Adopt(Time now, NodeId worker, const LeaseClaim& claim);
  // All workers have said what they hold, or are gone. Frees what no slice reports, according to heartbeats
  // that servers made after this: a worker may have ended its lease with the former coordinator.
  virtual void EndAwait(Time now, const HeartbeatCounts& heartbeat_counts);

  // ---- leases
  size_t leased() const { return leases_.size(); }
  uint64_t regranted() const { return regranted_; }
  uint64_t overdue() const { return overdue_; }  // leases that were overdue, since the start
  void OnHeartbeat(Time now, NodeId worker, bool waiting) { pace_.OnHeartbeat(now, worker, waiting); }
  // Frees items whose lease is overdue for another worker.
  void FreeOverdue(Time now);
  // The worker has ended the lease. The item is leased again only if slices still lack some of it, according
  // to a heartbeat that each server made after the worker's last acknowledgement.
  void Release(Time now, uint64_t id, NodeId worker, const HeartbeatCounts& heartbeat_counts);
  // Frees leases of the worker that are not in `held`: they never reached it. Returns the leases in `held`
  // that do not belong to it, to be revoked.
  std::vector<uint64_t> Reconcile(Time now, NodeId worker, std::vector<uint64_t> held);
  // The worker is gone or must stop: frees all its leases.
  virtual void Reclaim(Time now, NodeId worker);
  // A server has reported: what was released is complete, or free again.
  void OnServerReport(Time now, const SliceProgress& slices, const HeartbeatCounts& heartbeat_counts);
  // The slices are ready again, some of them perhaps with older ledgers.
  virtual void Reconsider(Time now, const SliceProgress& slices) = 0;

 protected:
  using Item = LeaseItem;
  using Stage = LeaseItem::Stage;
  explicit LeaseBook(const LeaseLimits& limits) : pace_(limits) {}

  // Leases a free item. Items stay where they are as long as they have leases, or are released.
  void Lend(Time now, Item* item, uint64_t lease, NodeId worker);
  // The holders learn of it by Reconcile.
  void DropHolders(Item* item);
  // The item needs no worker any more.
  void Finish(Item* item);
  // Finished items are not looked at any more. Call it before any are erased, and before a released item gets
  // another stage, or it would be released twice.
  void ForgetFinished();
  // All leases are void.
  void ForgetLeases();
  // How many leases of the worker are overdue, and so free for others.
  size_t OverdueOf(NodeId worker) const;

  bool awaiting_ = false;

 private:
  virtual void ForEach(const std::function<void(Item&)>& visit) = 0;
  virtual Item* Find(const LeaseClaim& claim) = 0;  // null: there is none
  // The item is free from now on: it has no lease, or a single one that is overdue.
  virtual void Free(Time now, Item* item) = 0;
  virtual void Unfree(const Item& item) = 0;  // it is not free any more
  // The worker has one more of the items that belong together, or one less. Those that it has released count,
  // unless they are free again.
  virtual void CountShare(const Item&, NodeId /*worker*/, bool /*more*/) {}
  // The slices have reported. False: nothing follows from that yet.
  virtual bool TakeProgress(Time now, const SliceProgress& slices) = 0;
  // No worker is needed for the released item. `reported`: by all slices since it was released.
  virtual bool IsComplete(const Item& item, const SliceProgress& slices, bool reported) const = 0;

  void Enter(Time now, Item* item, uint64_t lease, NodeId worker);
  void MarkReleased(Item* item, NodeId worker, const HeartbeatCounts& heartbeat_counts);
  void FreeIfAbandoned(Time now, Item* item);
  void Drop(uint64_t lease);

  std::map<uint64_t, Item*> leases_;
  std::map<NodeId, std::set<uint64_t>> workers_;  // leases by worker
  std::vector<Item*> released_;                   // some of them perhaps finished
  LeasePace pace_;
  uint64_t regranted_ = 0, overdue_ = 0;
};

}  // namespace leat::protocol
