// The steps of stepped strategies that are open on a server. Lanes arrive in any order, slice by slice. A
// slice completes its step when all lanes that count have arrived, adding them in lane order. Moments are
// merged in lane order instead.
//
// Invariants:
// - A slice is at step `version`; of later steps it takes lanes of the next `ahead` ones.
// - All slices of a server take the same run in a lane of a step, and no run is taken in two lanes.
// - Backup workers: the server with slice 0 decides which lanes count, among those that have arrived for all
//   its slices. A decision is made once, is known to the replica of slice 0 before anybody acts on it, and
//   never changes.
// - A replica completes no step that its primary has not completed.
// - A copy is kept of each slice at the version that a checkpoint waits for (HostedSlices::keep_at).
//
// Lanes that contradict what is known are answered by an outcome or a Status; the server goes on. Not
// thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compute/tensor/buffer.h"
#include "protocol/members/server_view.h"
#include "protocol/slices/server/slice_orders.h"

namespace leat::protocol {

// Figures of a server about the pushes that it has taken, as its heartbeats report them.
struct PushFigures {
  // Bins of the staleness histogram: initially, and at most (for large clusters).
  static constexpr size_t kStalenessBins = 129, kMaxStalenessBins = 4097;

  PushFigures() { progress.staleness.resize(kStalenessBins); }

  void Measure(uint64_t staleness) {
    if (forwarding) return;
    const size_t bin = std::min<uint64_t>(staleness, kMaxStalenessBins - 1);
    if (bin >= progress.staleness.size()) progress.staleness.resize(bin + 1);
    ++progress.staleness[bin];
    progress.staleness_sum += staleness;
    ++progress.staleness_count;
  }
  // A run, or a step with it, had a gradient that was not finite.
  void Reject(const RejectedRun& run) {
    ++consecutive_rejected;
    ++progress.skipped;
    rejected = run;
  }
  void Report(ServerHeartbeat* heartbeat) const {
    heartbeat->consecutive_rejected = consecutive_rejected;
    heartbeat->rejected = rejected;
    heartbeat->progress = progress;
  }

  ServerProgress progress;
  uint32_t consecutive_rejected = 0;
  std::optional<RejectedRun> rejected;
  bool forwarding = false;  // a forwarded push is applied: the primary measures its staleness
};

inline std::span<float> FloatsIn(const Buffer& buffer, uint64_t elements) {
  return {reinterpret_cast<float*>(buffer.data()), elements};
}

// The arithmetic of a completed step at one slice, prepared so that it can run on another thread.
struct StepUpdate {
  struct Addend {
    std::span<const float> numbers;
    float weight = 0;
    Buffer memory;  // memory of the numbers; empty: the receive buffer
  };
  bool* updating = nullptr;  // the slice's: the update is collected
  const SliceRule* rule = nullptr;
  uint64_t elements = 0, version = 0;  // the version that results
  float scale = 0;
  float rate = 1;
  Buffer sum;                   // empty: nothing was added yet, and chunks suffice
  bool has_sum = false;         // the sum has a value
  std::vector<Addend> addends;  // not in the sum, in lane order
  Buffer from, to;              // memory of the slice: equal if updated in place
  Buffer previous;              // in place: receives the previous values
};

// Arithmetic of completed steps, and its memory: buffers of sums and early gradients are used again.
//
// Updates run at once, or are collected and then run together, on several threads if that is worth it
// (ServerConfig::run_parts). Results are the same.
//
// Invariants: only the slice, its steps and its update refer to the memory of an update; a slice has at most
// one update that has not run (`*updating`). Not thread-safe, but the updates themselves are independent.
class StepUpdates {
 public:
  explicit StepUpdates(const JobSlices& job) : job_(job) {}

  // Memory of that size, perhaps used before.
  Buffer TakeBuffer(uint64_t elements) { return TakeMemory(elements * sizeof(float)); }
  Buffer TakeMemory(uint64_t bytes);
  // Unless somebody else refers to it.
  void GiveBuffer(Buffer buffer) {
    if (buffer && !buffer.shared()) spare_[buffer.size()].push_back(std::move(buffer));
  }

  // Collects updates, or runs each at once. Returns what was set before.
  bool Defer(bool defer) { return std::exchange(deferring_, defer); }
  void Add(StepUpdate&& update);
  void RunAll();
  void RunDeferred() {
    deferring_ = false;
    if (!updates_.empty()) RunAll();
  }

 private:
  void Give(StepUpdate* update);  // its memory, to be used again

  const JobSlices& job_;
  std::unordered_map<uint64_t, std::vector<Buffer>> spare_;  // by bytes
  bool deferring_ = false;
  std::vector<StepUpdate> updates_;
};

class ServerSteps {
 public:
  // The state of a step over all slices of this server.
  struct Step {
    uint32_t width = 1, needed = 1;
    float rate = 1;                          // as PushHeader::rate, by the last lane to arrive
    std::vector<std::optional<RunId>> runs;  // by lane, once a push has delivered it
    std::vector<NodeId> workers;             // by lane, the first worker to deliver it
    std::vector<uint64_t> whole;             // on the deciding server: lanes that have arrived for all slices
    std::vector<uint64_t> chosen;            // on the deciding server: the lanes that are to count
    LinkNumber chosen_at;                    // the replica of the deciding slice knows them
    std::vector<uint64_t> counted;           // needed < width: the lanes that count, once decided
    std::vector<RunId> recorded;             // the runs that count, once a slice has completed the step
    size_t completed = 0;                    // number of slices
    bool backed_up() const { return needed < width; }
    bool Counts(uint32_t lane) const {
      return !backed_up() || (!counted.empty() && (counted[lane / 64] >> (lane % 64) & 1) != 0);
    }
  };

  ServerSteps(ServerView& view, HostedSlices& slices, ReplicaForwards& forwards, ServerMoves& moves,
              PushFigures& figures);

  void OnChanges(const std::vector<SliceChange>& changes);
  // After orders. `promoted`: a replica has taken the place of its primary.
  void OnOrders(bool promoted) {
    SettleDecisions();
    if (promoted) DecideAgain();
    if (promoted || !news_.empty()) CompleteAll();
  }
  // Forgets old steps.
  void Prune();

  // ---- lanes
  // Takes a run at one slice. `agreed`: the step known to contain the run in this lane; null for the first
  // slice of a push.
  SliceOutcome TakeLane(HostedSlice* hosted, const PushRequest& request, const SliceRef& ref,
                        std::span<const float> gradient, const Step** agreed);
  // Completes the slice's steps as long as their lanes have arrived. The last gradient, of `lane` of the
  // first step, is still in the receive buffer.
  void CompleteSteps(HostedSlice* hosted, uint32_t lane = 0, std::span<const float> gradient = {});
  // The primary of a replica has completed the steps before this version.
  void SetReach(SliceId replica, uint64_t version) { slice_steps_[replica.value].reach = version; }
  StepUpdates& updates() { return updates_; }

  // ---- decisions
  // Takes the sender's knowledge of the lanes that count. kInvalidArgument if it contradicts what is known.
  Status TakeCounted(const PushRequest& request);
  // On the server with slice 0: decides the lanes that count as soon as enough have arrived.
  void Decide(const PushRequest& request);
  // Decisions that the replica of slice 0 has acknowledged hold from now on.
  void SettleDecisions();
  // Decisions of another server, for slices that have come from it. CompleteDecided acts on them.
  void TakeDecided(const std::vector<DecidedStep>& decided);
  void CompleteDecided() {
    if (!news_.empty()) CompleteAll();
  }
  // Adds the decisions so far to slice 0, if it is sent.
  void AddDecided(std::vector<MoveAction>* actions) const;

  // ---- answers
  Step* FindStep(uint64_t step) {
    if (!found_ || found_number_ != step) FindAnother(step);
    return found_;
  }
  // The values before the last step; null if they are not known.
  const Buffer* Previous(SliceId slice) const {
    const SliceSteps& steps = slice_steps_[slice.value];
    return steps.has_previous ? &steps.previous : nullptr;
  }

 private:
  // The number of completed steps whose counted lanes are remembered, so that a repeated question gets the
  // same answer.
  static constexpr uint64_t kRemembered = 4;
  // The maximum number of steps that are open or remembered. Peers cannot exceed it.
  static constexpr size_t kMaxSteps = 64;

  // A lane of a step at one slice. Small, because there are slices × lanes of them.
  struct Lane {
    bool in = false;
    Disposition disposition = Disposition::kEmpty;
    uint32_t events = 0;
    uint32_t staleness = 0;  // saturated
  };
  // A step that a slice is collecting. Gradients are added as soon as it is their turn, directly from the
  // receive buffer. Early gradients, and those that may turn out not to count, are stored.
  struct OpenStep {
    std::vector<Lane> lanes;
    uint32_t in = 0;
    uint32_t added = 0;         // lanes below it are in the sum, or have nothing to add
    Buffer sum;                 // empty: nothing was added yet
    std::vector<Buffer> early;  // by lane; empty: not stored
  };
  struct SliceSteps {
    // The previous version's values, at the beginning of the buffer (modelled: none), and whether they are
    // known.
    Buffer previous;
    bool has_previous = false;
    bool updating = false;       // `updates_` has an update of it
    uint64_t reach = 0;          // a replica's limit: it completes no step that its primary has not completed
    std::vector<OpenStep> open;  // version, version + 1, … version + ahead
  };

  const StrategyConfig& strategy() const { return slices_.job().config().strategy; }
  SliceSteps& StepsOf(const HostedSlice& hosted) { return slice_steps_[hosted.order.slice.value]; }
  // Whether this server decides. Not while the slice moves: the other server would not know.
  bool Decides() const { return slices_.Alive(SliceId(0)) && !slices_.At(SliceId(0)).frozen; }
  bool IsWhole(uint64_t step, uint32_t lane) const;
  void ChooseLanes(Step* step);  // among those that are whole
  void DecideAgain();
  void FindAnother(uint64_t step);
  // Null if it contradicts an open step, or if there are too many.
  Step* OpenStepOf(const StepLane& step_lane) {
    Step* const step = FindStep(step_lane.step);
    if (!step) return MakeStep(step_lane);
    return step->width == step_lane.width && step->needed == step_lane.needed ? step : nullptr;
  }
  Step* MakeStep(const StepLane& step_lane);
  bool MayComplete(const HostedSlice& hosted) {
    return !hosted.is_replica || hosted.slice->version < StepsOf(hosted).reach;
  }
  static bool Complete(const OpenStep& open, const Step& step);
  void OnDecided(uint64_t number, const Step& step) {
    claims_outdated_ = true;
    news_.push_back({number, step.width, step.needed, step.counted});
  }
  void CompleteAll();  // after OnDecided
  void CompleteStep(HostedSlice* hosted, Step* step, uint32_t lane, std::span<const float> gradient);
  void UpdateByStep(HostedSlice* hosted, const Step& step, uint64_t events, uint32_t lane,
                    std::span<const float> gradient);
  void Store(const HostedSlice& hosted, OpenStep* open, const Step& step, uint32_t lane,
             std::span<const float> gradient);
  void Clear(OpenStep* open);
  void RebuildClaims();

  ServerView& view_;
  HostedSlices& slices_;
  ReplicaForwards& forwards_;
  ServerMoves& moves_;
  PushFigures& figures_;
  StepUpdates updates_;
  std::vector<SliceSteps> slice_steps_;  // by slice id
  std::map<uint64_t, Step> steps_;
  // Cache of the last lookup, because each slice of a push asks for the same. Null after any step is erased.
  Step* found_ = nullptr;
  uint64_t found_number_ = 0;
  std::vector<DecidedStep> news_;  // decided steps that replicas do not know
  // Runs that slices have recorded or that lanes of open steps contain. Prevents a run from being taken in
  // two lanes.
  Ledger claims_;
  bool claims_outdated_ = true;
  uint64_t outcomes_recorded_ = 0;  // steps below it are counted as rejected or not
};

}  // namespace leat::protocol
