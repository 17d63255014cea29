// What the server holds, for its own sources: server.cc (orders, heartbeats, checkpoints), server_push.cc
// (requests and replies, those that wait), server_steps.cc (the open steps of stepped strategies).
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "optim/mean.h"
#include "protocol/server/server.h"
#include "protocol/server/slice_ledgers.h"

namespace leat::protocol {

struct Server::State {
  // Staleness of up to so many updates is told apart: of the first in any cluster, of the most in large ones.
  static constexpr size_t kStalenessBins = 129, kMaxStalenessBins = 4097;
  // Steps behind the slices that what was chosen for them is remembered of: who asks again is told the same.
  static constexpr uint64_t kRemembered = 4;
  // The most steps that are open or remembered, and lie between the slices: no peer makes it more.
  static constexpr size_t kMaxSteps = 64;

  // A lane of a step, at one slice. Small: there are as many as slices times lanes.
  struct Lane {
    bool in = false;
    Disposition disposition = Disposition::kEmpty;
    uint32_t events = 0;
    uint32_t staleness = 0;  // or the most that it can say
  };
  // A step that a slice waits to complete. Gradients are added as soon as it is their turn, straight from
  // where they arrive; those that came too early, or may yet turn out not to count, are kept.
  struct OpenStep {
    std::vector<Lane> lanes;
    uint32_t in = 0;
    uint32_t added = 0;         // lanes below it are in the sum, or have nothing to add
    Buffer sum;                 // empty: nothing was added yet
    std::vector<Buffer> early;  // by lane; empty ones are not kept
  };
  // A slice that is ordered here: being read, not to be had, or alive.
  struct HostedSlice {
    SliceOrder order;
    bool failed = false;
    // Stepped: the values of the version before, at the beginning of the memory (modelled: none); whether
    // they are known.
    Buffer previous;
    bool has_previous = false;
    bool updating = false;                 // an update of it waits in `updates`
    std::vector<OpenStep> open;            // version, version + 1, … version + ahead
    std::shared_ptr<const Slice> to_save;  // as it was at the version of `waiting_save`
    std::shared_ptr<Slice> slice;          // null until it is alive; its own ledger may be outdated
    // Not stepped: its memory is read by whoever saves it, so an update takes new memory. In stepped
    // strategies whatever memory somebody else holds is left as it is.
    bool being_saved = false;
  };
  // What every push looks at, side by side: places are large.
  struct HotSlice {
    Slice* alive = nullptr;  // its place's
    bool ledger_outdated = false;
  };
  // What a step is to all slices here.
  struct Step {
    uint32_t width = 1, needed = 1;
    std::vector<std::optional<RunId>> runs;  // by lane, once a push has brought it
    std::vector<NodeId> workers;             // by lane, who brought it first
    std::vector<uint64_t> whole;             // the decider's: lanes that are in on all slices here
    std::vector<uint64_t> counted;           // needed < width: lanes that count, once that is known
    std::vector<RunId> noted;                // those runs that count, once a slice has completed it
    size_t completed = 0;                    // by slices here
    bool backed_up() const { return needed < width; }
    bool Counts(uint32_t lane) const {
      return !backed_up() || (!counted.empty() && (counted[lane / 64] >> (lane % 64) & 1) != 0);
    }
  };
  // How the slices of one variable are updated.
  struct Rule {
    optim::OptimizerConfig optimizer;
    uint32_t slots = 0;
    optim::MeanRule mean;
    bool whole = false;  // an update has to see all elements
  };
  // The arithmetic of a step that is complete, at one slice: all else has been done. Nobody else has any of
  // its memory but the slice and its place.
  struct StepUpdate {
    struct Part {
      std::span<const float> numbers;
      float weight = 0;
      Buffer memory;  // that they lie in; empty: where they arrived
    };
    HostedSlice* place = nullptr;
    const Rule* rule = nullptr;
    uint64_t elements = 0, version = 0;  // the version that comes out of it
    float scale = 0;
    Buffer sum;               // empty: nothing was added yet, and chunks do
    bool has_sum = false;     // something is in it
    std::vector<Part> parts;  // that are not in the sum, in the order of lanes
    Buffer from, to;          // of the slice: the same where it is updated in place
    Buffer previous;          // in place: where the values go before
  };
  struct Save {
    uint64_t checkpoint = 0;
    std::vector<SliceIncarnation> incarnations;
    // Stepped: held until it is saved, so that no update takes their memory for its own while another thread
    // reads it.
    std::vector<std::shared_ptr<const Slice>> slices;
  };
  struct Parked {
    uint64_t ticket = 0;
    bool expired = false;
    PushHeader request;
    std::vector<SliceReply> slices;
  };
  explicit State(ServerConfig c);

  const Rule& RuleOf(SliceId id) const { return rules[config.table.slices[id.value].variable]; }
  bool stepped() const { return config.strategy.stepped(); }
  Slice* Alive(SliceId id) const { return id.value < hot.size() ? hot[id.value].alive : nullptr; }
  bool NotInView(const PushHeader& request) {
    // A worker whose view is newer has joined since ours was made.
    return request.generation <= view->generation && request.worker != last_member && !InView(request.worker);
  }
  bool InView(NodeId worker);

  // ---- server.cc
  void TakeView(const Shared<View>& newer);
  void TakeOrders(const std::vector<SliceOrder>& orders, LoadSlices* loads);
  void MakeLive(HostedSlice* place, std::shared_ptr<Slice> slice);  // it is alive
  void DropHostedSlice(std::optional<HostedSlice>* place);
  std::shared_ptr<Slice> Make(const SliceOrder& order) const;
  void MoveToNewMemory(Slice* slice) const;  // whoever holds the old keeps it as it is
  Status Fits(const Slice& slice) const;
  const Slice& WithLedger(HostedSlice* place);  // the slice, its ledger brought up to date
  std::optional<SaveShard> TakeSave(const std::optional<CheckpointOrder>& order);
  std::optional<SaveShard> TakeSaveAtVersion(const std::optional<CheckpointOrder>& order);
  SaveShard BeginSave(const CheckpointOrder& order, std::vector<std::shared_ptr<const Slice>> slices);

  // ---- server_push.cc
  Status CheckStepLane(const PushRequest& request) const;
  Status CheckRun(const PushRequest& request) const;
  // `gradients`: as many as there are slices, or none; `replies` has room for as many.
  void Apply(const PushRequest& request, std::span<const SliceRef> slices,
             std::span<const std::span<const float>> gradients, SliceReply* replies);
  void Update(Slice* slice, std::span<const float> gradient, uint64_t seen_version) {
    const uint64_t staleness = slice->version - std::min(seen_version, slice->version);
    ++slice->version;
    if (!config.modelled) UpdateValues(slice, gradient, staleness);
    Measure(staleness);
  }
  void UpdateValues(Slice* slice, std::span<const float> gradient, uint64_t staleness);
  void Measure(uint64_t staleness) {
    const size_t bin = std::min<uint64_t>(staleness, kMaxStalenessBins - 1);
    if (bin >= progress.staleness.size()) progress.staleness.resize(bin + 1);
    ++progress.staleness[bin];
    progress.staleness_sum += staleness;
    ++progress.staleness_count;
  }
  bool Waits(const PushHeader& request, const std::vector<SliceReply>& slices);
  bool Unready(const PushHeader& request, const std::vector<SliceReply>& slices);
  PushReply Answer(const PushHeader& request, std::vector<SliceReply> slices, bool expired);

  // ---- server_steps.cc
  // What becomes of a run at one slice. `agreed`, null for the first slice of a push: the step in whose lane
  // the run is known to be.
  SliceOutcome TakeLane(HostedSlice* place, const PushRequest& request, const SliceRef& ref,
                        std::span<const float> gradient, const Step** agreed);
  // What the sender knows of the lanes that count; kInvalidArgument when it contradicts what is known.
  Status TakeCounted(const PushRequest& request);
  // The server that holds slice 0 chooses as soon as enough lanes are in.
  void Decide(const PushRequest& request);
  Step* FindStep(uint64_t step) {
    if (!found || found_number != step) FindAnother(step);
    return found;
  }
  void FindAnother(uint64_t step);
  // Null when it contradicts what is open, or there are too many.
  Step* OpenStepOf(const StepLane& step_lane) {
    Step* const step = FindStep(step_lane.step);
    if (!step) return MakeStep(step_lane);
    return step->width == step_lane.width && step->needed == step_lane.needed ? step : nullptr;
  }
  Step* MakeStep(const StepLane& step_lane);
  bool Complete(const OpenStep& open, const Step& step) const;
  void CompleteAll();
  // Completes the slice's steps as long as their lanes are in. The gradient that came last, of `lane` of the
  // first of them, is still where it arrived.
  void CompleteSteps(HostedSlice* place, uint32_t lane = 0, std::span<const float> gradient = {});
  void CompleteStep(HostedSlice* place, Step* step, uint32_t lane, std::span<const float> gradient);
  void UpdateByStep(HostedSlice* place, const Step& step, uint64_t events, uint32_t lane,
                    std::span<const float> gradient);
  static void Run(const StepUpdate& update);
  void RunUpdates();
  void Give(StepUpdate update);
  void Keep(HostedSlice* place, OpenStep* open, const Step& step, uint32_t lane,
            std::span<const float> gradient);
  void RecordStepOutcome(uint64_t number, const Step& step, std::optional<uint32_t> rejected_lane,
                         bool applied);
  void RebuildClaims();
  void Prune();  // what is remembered of steps
  void Clear(OpenStep* open);
  Buffer TakeBuffer(uint64_t elements);
  Buffer TakeMemory(uint64_t bytes);
  Buffer NewMemory(uint64_t bytes) const { return config.allocate ? config.allocate(bytes) : Buffer(bytes); }
  void GiveBuffer(Buffer buffer);

  ServerConfig config;
  std::vector<Rule> rules;  // by variable
  NodeId node;
  Shared<View> view = View();
  std::vector<NodeId> members;        // of the view, ordered
  bool none_missing = false;          // between the first of them and the last
  std::optional<NodeId> last_member;  // found there last: each slice of a push asks for the same
  std::vector<Position> start;
  std::vector<std::optional<HostedSlice>> places;  // by slice id
  std::vector<HotSlice> hot;                       // likewise
  size_t count_alive = 0;
  SliceLedgers ledgers;  // of those that are alive
  std::string failure;
  std::optional<Save> saving;
  std::optional<CheckpointOrder> waiting_save;  // stepped: not all slices have come to its version
  uint64_t last_checkpoint = 0;
  std::optional<ShardReport> shard;
  ServerProgress progress;
  uint32_t consecutive_rejected = 0;
  std::optional<RejectedRun> rejected;
  bool heartbeat_urgent = false;  // that the coordinator waits for

  std::vector<Parked> parked;
  bool wake = false;  // something has happened that a parked request may have waited for

  std::map<uint64_t, Step> steps;
  // What was looked for last: each slice of a push asks for the same. Null once any step is forgotten.
  Step* found = nullptr;
  uint64_t found_number = 0;
  // Runs that the slices hold or that lanes of open steps have brought: no run is taken in two lanes.
  Ledger claims;
  bool claims_outdated = true;
  uint64_t outcomes_recorded = 0;  // steps below it have been counted as rejected or not
  std::unordered_map<uint64_t, std::vector<Buffer>> spare;  // by bytes
  bool defer_updates = false;                               // updates come together, to be run by RunUpdates
  std::vector<StepUpdate> updates;
};

}  // namespace leat::protocol
