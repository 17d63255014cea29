// The slices on a server: those that the coordinator has ordered (being read, failed, or live), and replicas
// of slices of other servers.
//
// Invariants:
// - A live slice has its ledger in `ledgers()`. The ledger in the Slice may be outdated: WithLedger updates
// it.
// - At most one of `alive` and `replica` of a HotSlice is set, to the slice of its HostedSlice.
// - Each slice that is dropped, promoted or becomes live is listed once, in order, by TakeChanges. The router
//   passes them on before any push: whoever keeps more about a slice forgets it then.
//
// Errors of checkpoints are reported in heartbeats (`failed`). Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "protocol/slices/server/job_slices.h"
#include "protocol/slices/server/slice_ledgers.h"

namespace leat::protocol {

// A number on a link to a server with replicas.
struct LinkNumber {
  uint64_t link = 0, number = 0;
};

// The replica of a slice of this server, on another one.
struct RemoteReplica {
  uint64_t epoch = 0;  // 0: it has none
  NodeId server;
  uint64_t link = 0;
  uint64_t taken = 0;    // the last number with a run of the slice
  uint64_t changed = 0;  // the number that brought it to its version
  bool lost = false;     // it lacks something, for good
};

struct HostedSlice {
  SliceOrder order;
  bool failed = false;
  // It takes what its primary forwards and nothing else. Its epoch is `order.move`.
  bool is_replica = false;
  bool diverged = false;         // it has refused something, or is not what its primary is
  RemoteReplica replica;         // the replica of a primary
  std::shared_ptr<Slice> slice;  // null until live; its own ledger may be outdated
  // Stepped: one past the last step of which a lane has arrived. Above the slice's version: a step is open.
  uint64_t lanes_end = 0;
  uint64_t saved = 0;        // the newest checkpoint that has been saved with it, here or elsewhere
  uint64_t move = 0;         // takes the slice away; 0: none
  bool frozen = false;       // it takes no runs
  bool handed_over = false;  // frozen, and held by the other server
  // Its state at the version of HostedSlices::keep_at, and what its replica has to have reached with it.
  std::shared_ptr<const Slice> kept;
  LinkNumber kept_at;
};

// The fields that every push needs, kept together because a HostedSlice is large.
struct HotSlice {
  Slice* alive = nullptr;    // the slice of its HostedSlice
  Slice* replica = nullptr;  // the slice if it is a replica; `alive` is null then
  mutable bool ledger_outdated = false;
  bool replicated = false;  // another server has its replica
  bool moving = false;      // frozen, or as soon as no step of it is half done
  // Not stepped: its memory is being saved, so an update uses new memory. Stepped strategies never overwrite
  // memory that is referenced elsewhere.
  bool being_saved = false;
  uint32_t requests = 0;
  uint64_t bytes = 0;  // bytes of gradients and values
  Slice* held() const { return alive ? alive : replica; }
};

// Consequences of an input for the server as a whole.
struct ServerSignals {
  bool heartbeat_urgent = false;  // the coordinator waits for something that the next heartbeat says
  bool wake_parked = false;       // a parked request may have become ready
};

struct SliceChange {
  enum class Kind : uint8_t { kDropped, kLive, kPromoted };
  Kind kind = Kind::kDropped;
  SliceId slice;
  bool none_left = false;            // kDropped: no slice is live now, so a new history begins
  std::vector<DecidedStep> decided;  // kLive, by a move: steps that the former server has decided
};

class HostedSlices {
 public:
  explicit HostedSlices(ServerConfig config);

  const JobSlices& job() const { return job_; }
  JobSlices& job() { return job_; }
  bool stepped() const { return job_.stepped(); }
  size_t size() const { return hosted_.size(); }  // slices of the job

  // ---- slices here, by slice id
  std::span<std::optional<HostedSlice>> all() { return hosted_; }
  HostedSlice& At(SliceId id) { return *hosted_[id.value]; }  // the slice must be here
  const HostedSlice& At(SliceId id) const { return *hosted_[id.value]; }
  std::span<HotSlice> hot() { return hot_; }
  HotSlice& Hot(SliceId id) { return hot_[id.value]; }
  const HotSlice& Hot(SliceId id) const { return hot_[id.value]; }
  Slice* Alive(SliceId id) const { return id.value < hot_.size() ? hot_[id.value].alive : nullptr; }
  // The live slice of this incarnation, which is no replica; null if it is not here.
  HostedSlice* Find(const SliceIncarnation& which);
  size_t live() const { return live_; }          // slices and replicas
  size_t replicas() const { return replicas_; }  // live replicas of other servers' slices
  SliceLedgers& ledgers() { return ledgers_; }
  const SliceLedgers& ledgers() const { return ledgers_; }
  const Slice& WithLedger(const HostedSlice& hosted) const;  // the slice, with its ledger updated
  ServerSignals& signals() { return signals_; }
  const ServerSignals& signals() const { return signals_; }

  // ---- changes
  HostedSlice* Add(const SliceOrder& order);  // the slice must not be here
  void MakeLive(HostedSlice* hosted, std::shared_ptr<Slice> slice, std::vector<DecidedStep> decided = {});
  void Fail(HostedSlice* hosted, std::string why);
  // Delivers a slice that was read from a checkpoint, or the error. Outdated answers are ignored.
  void OnLoaded(const SliceOrder& order, Result<Slice> loaded);
  // A replica takes the place of its primary.
  void Promote(HostedSlice* hosted, const SliceOrder& order);
  void Drop(SliceId id);
  void DropAll();
  bool changed() const { return !changes_.empty(); }
  std::vector<SliceChange> TakeChanges() { return std::exchange(changes_, {}); }

  // ---- copies at a version, for a checkpoint that waits until all slices have reached it
  const std::optional<CheckpointOrder>& keep_at() const { return keep_at_; }
  void KeepAt(const CheckpointOrder& order) { keep_at_ = order; }
  void KeepNothing();
  bool WantsCopy(const HostedSlice& hosted) const {
    return keep_at_ && keep_at_->version == hosted.slice->version && !hosted.kept && !hosted.is_replica;
  }
  void Keep(HostedSlice* hosted, LinkNumber at);
  bool AllKept() const;  // or saved elsewhere

  // ---- heartbeats
  void Report(ServerHeartbeat* heartbeat) const;  // failures and bytes
  // The ledgers of live slices whose replicas' servers do not report them.
  std::vector<LedgerReport> Ledgers();
  // The traffic of some slices, now and then.
  void ReportTraffic(ServerHeartbeat* heartbeat);

 private:
  JobSlices job_;
  std::vector<std::optional<HostedSlice>> hosted_;  // by slice id
  std::vector<HotSlice> hot_;                       // by slice id
  size_t live_ = 0, replicas_ = 0;
  SliceLedgers ledgers_;  // ledgers of live slices
  std::string failure_;   // the reason of the last failed order
  std::optional<CheckpointOrder> keep_at_;
  std::vector<SliceChange> changes_;
  ServerSignals signals_;
  uint64_t heartbeats_ = 0;
  uint32_t traffic_reported_ = 0;  // slices before it, in the current sequence of reports
};

}  // namespace leat::protocol
