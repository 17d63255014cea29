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

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compute/optim/mean.h"
#include "compute/optim/optimizer.h"
#include "compute/tensor/buffer.h"
#include "protocol/messages_control.h"
#include "protocol/messages_data.h"
#include "protocol/slice.h"
#include "protocol/slices.h"
#include "protocol/slices/server/slice_ledgers.h"
#include "protocol/strategy.h"

namespace leat::protocol {

// Settings of a server, and what the shell provides.
struct ServerConfig {
  SliceTable table;                  // whole variables if the optimizer needs them
  optim::OptimizerConfig optimizer;  // averaging: applied to the average, with rate 1 and its momentum
  StrategyConfig strategy;
  // Modelled steps for the simulator: slices have sizes but no memory, and gradients have no payload.
  // Everything else is unchanged.
  bool modelled = false;
  Allocate allocate = {};  // for the values of slices, which are sent; null: ordinary memory
  // Not stepped, before the first update of a slice that is being saved. True: it is saved by now, and the
  // update overwrites its memory. False, or null: the update goes to new memory, and the old one is freed
  // with the save.
  std::function<bool(const Slice& slice)> saved = {};
  // Calls part(0) … part(count − 1) in any order and on any threads, and returns when all have returned;
  // null: sequentially. Results are bit-identical in all cases.
  std::function<void(size_t count, const std::function<void(size_t)>& part)> run_parts = {};
  // Limit of the encoded ledgers in one heartbeat. The rest follows in the next heartbeats.
  uint64_t max_report_bytes = 1 << 20;
};

// How the slices of one variable are updated.
struct SliceRule {
  optim::OptimizerConfig optimizer;
  uint32_t slots = 0;
  optim::MeanRule mean;
  bool whole = false;  // an update needs all elements at once
  optim::VariableRole role = optim::VariableRole::kTrained;
  bool moments() const { return role == optim::VariableRole::kMoments; }
  // Only what is trained has a learning rate.
  float RateOf(float rate) const { return role == optim::VariableRole::kTrained ? rate : 1.0f; }
  // Adds a lane's push to the sum of those before it; `first`: begins the sum. Moments are merged.
  void Add(bool first, std::span<float> sum, std::span<const float> pushed, float weight) const;
  // `slots` as of optim::Apply.
  void Apply(std::span<float> values, std::span<const float> pushed, std::span<const std::span<float>> slots,
             uint64_t version, float rate) const;
};

// Bytes of the values and slots of a slice.
inline uint64_t MemoryBytes(uint64_t elements, uint32_t slots) {
  return elements * (1 + slots) * sizeof(float);
}

// The strategy has steps of this width.
bool FitsStrategy(const StepLane& step_lane, const StrategyConfig& strategy);
// Backup workers: as many lanes count as the strategy says.
bool FitsStrategy(const DecidedStep& decided, const StrategyConfig& strategy);

// The slices of a job as a server makes them: settings, sizes, rules, memory and initial values. It has no
// slice itself. Rules are the slots and the update of each variable, and the steps that the strategy allows:
// pure functions of the job.
//
// Invariant: only `start` changes, once the coordinator has said where partitions start. What peers and files
// deliver is checked by Fits.
class JobSlices {
 public:
  explicit JobSlices(ServerConfig config);
  JobSlices(const JobSlices&) = delete;  // the concerns of a server refer to it

  const ServerConfig& config() const { return config_; }
  bool stepped() const { return config_.strategy.stepped(); }
  size_t size() const { return config_.table.slices.size(); }
  const SliceRule& RuleOf(SliceId id) const { return rules_[config_.table.slices[id.value].variable]; }
  uint64_t ElementsOf(SliceId id) const { return config_.table.slices[id.value].elements(); }
  // The bytes of a slice's values and slots; none: the job has no such slice.
  std::optional<uint64_t> BytesOf(SliceId id) const;
  // Where each partition starts, for newly initialized slices; empty: not known yet.
  const std::vector<Position>& start() const { return start_; }
  void SetStart(const std::vector<Position>& start) {
    if (!start.empty()) start_ = start;
  }
  // kDataLoss if the job has no such slice.
  Status Fits(const Slice& slice) const;

  Buffer NewMemory(uint64_t bytes) const {
    return config_.allocate ? config_.allocate(bytes) : Buffer(bytes);
  }
  void MoveToNewMemory(Slice* slice) const;  // other owners of the old memory keep it unchanged
  std::shared_ptr<Slice> Make(const SliceOrder& order) const;  // with initial values
  Slice InMemory(SliceId id, Buffer memory) const;             // a slice of the job in this memory

 private:
  const ServerConfig config_;
  std::vector<SliceRule> rules_;  // by variable
  std::vector<Position> start_;
};

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
  // The slice must not be here.
  HostedSlice* Add(const SliceOrder& order) {
    HostedSlice& hosted = hosted_[order.slice.value].emplace();
    hosted.order = order;
    return &hosted;
  }
  void MakeLive(HostedSlice* hosted, std::shared_ptr<Slice> slice, std::vector<DecidedStep> decided = {});
  void Fail(HostedSlice* hosted, std::string why) {
    hosted->failed = true;
    failure_ = std::move(why);
  }
  // Delivers a slice that was read from a checkpoint, or the error. Outdated answers are ignored.
  void OnLoaded(const SliceOrder& order, Result<Slice> loaded);
  // A replica takes the place of its primary.
  void Promote(HostedSlice* hosted, const SliceOrder& order);
  void Drop(SliceId id);
  void DropAll() {
    for (uint32_t i = 0; i < size(); ++i) Drop(SliceId(i));
  }
  bool changed() const { return !changes_.empty(); }
  std::vector<SliceChange> TakeChanges() { return std::exchange(changes_, {}); }

  // ---- copies at a version, for a checkpoint that waits until all slices have reached it
  const std::optional<CheckpointOrder>& keep_at() const { return keep_at_; }
  void KeepAt(const CheckpointOrder& order) { keep_at_ = order; }
  void KeepNothing() {
    keep_at_.reset();
    for (auto& hosted : hosted_) {
      if (hosted) hosted->kept.reset();
    }
  }
  bool WantsCopy(const HostedSlice& hosted) const {
    return keep_at_ && keep_at_->version == hosted.slice->version && !hosted.kept && !hosted.is_replica;
  }
  void Keep(HostedSlice* hosted, LinkNumber at) {
    hosted->kept = std::make_shared<const Slice>(WithLedger(*hosted));
    hosted->kept_at = at;
  }
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
