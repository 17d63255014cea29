// The leases of a queue of work: which workers hold which items, for how long, and what becomes of an item
// when its lease ends. SplitQueue's items are splits, RoundQueue's are the lanes of rounds.
//
// An item whose lease is overdue (lease_pace.h) is free for another worker, too, and the first result counts:
// the ledgers reject the other. It never has more than two leases at a time.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "protocol/leases/lease_pace.h"
#include "protocol/members/roster.h"
#include "protocol/slices/slice_map.h"

namespace leat::protocol {

class LeaseBook {
 public:
  virtual ~LeaseBook() = default;

  // The cuts that are not entirely before the watermark.
  virtual std::vector<Cut> Open(const std::vector<Position>& watermark) const = 0;

  // ---- workers of a former coordinator, who may hold restored items
  // After the restoration: none of the restored items is free until EndAwait.
  virtual void Await() = 0;
  // A worker holds this lease. Ignored if it cannot be.
  virtual void Adopt(Time now, NodeId worker, const LeaseClaim& claim) = 0;
  // All workers have said what they hold, or are gone. Frees what no slice reports, according to heartbeats
  // that servers made after this: a worker may have ended its lease with the former coordinator.
  virtual void EndAwait(Time now, const HeartbeatCounts& heartbeat_counts) = 0;

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
  // A server has reported: checks what was released.
  virtual void OnServerReport(Time now, const SliceProgress& slices,
                              const HeartbeatCounts& heartbeat_counts) = 0;
  // The slices are ready again, some of them perhaps with older ledgers.
  virtual void Reconsider(Time now, const SliceProgress& slices) = 0;

 protected:
  enum class Stage : uint8_t { kAwaited, kFree, kLeased, kReleased, kDone };
  struct Item {
    Cut cut;
    Stage stage = Stage::kFree;
    bool granted = false;              // was leased before, in this term
    std::vector<LeaseHolder> holders;  // at most two; a free item has one if its lease is overdue
    HeartbeatCounts released_at;
  };
  explicit LeaseBook(const LeaseLimits& limits) : pace_(limits) {}

  static bool Holds(const Item& item, NodeId worker);
  bool MayAdopt(const Item& item, NodeId worker, uint64_t lease) const;
  // Items stay where they are as long as they have leases.
  void Lend(Time now, Item* item, uint64_t lease, NodeId worker);
  // The holders learn of it by Reconcile.
  void DropHolders(Item* item);
  void FreeIfAbandoned(Time now, Item* item);
  void ForgetLeases();
  // How many leases of the worker are overdue, and so free for others.
  size_t OverdueOf(NodeId worker) const;

  bool awaiting_ = false;
  uint64_t regranted_ = 0;

 private:
  // It has no lease, or a single one that is overdue.
  virtual void Free(Time now, Item* item) = 0;
  virtual void OnDropped(Item*, NodeId /*worker*/) {}
  // Before the item's stage says so.
  virtual void OnReleased(Item* item, NodeId worker) = 0;
  void Drop(uint64_t lease);

  std::map<uint64_t, Item*> leases_;
  std::map<NodeId, std::set<uint64_t>> workers_;  // leases by worker
  LeasePace pace_;
  uint64_t overdue_ = 0;
};

}  // namespace leat::protocol
