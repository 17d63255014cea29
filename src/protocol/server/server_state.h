// The server's state, for its own sources: server.cc (orders, heartbeats, checkpoints), server_push.cc
// (requests, replies, parked requests), server_steps.cc (open steps of stepped strategies), server_moves.cc
// (slices that move between servers), server_replicas.cc (slices that are on two servers).
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compute/optim/mean.h"
#include "compute/optim/moments.h"
#include "protocol/push/ledger_reports.h"
#include "protocol/server/server.h"
#include "protocol/slices/server/slice_ledgers.h"

namespace leat::protocol {

struct Server::State {
  // Bins of the staleness histogram: initially, and at most (for large clusters).
  static constexpr size_t kStalenessBins = 129, kMaxStalenessBins = 4097;
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
  // A slice ordered on this server: being read, failed, or live.
  struct HostedSlice {
    SliceOrder order;
    bool failed = false;
    // It takes what its primary forwards and nothing else. Its epoch is `order.move`.
    bool is_replica = false;
    bool diverged = false;  // it has refused something, or is not what its primary is
    uint64_t reach = 0;     // a replica's limit: it completes no step that its primary has not completed
    RemoteReplica replica;  // the replica of a primary
    // Stepped: the previous version's values, at the beginning of the buffer (modelled: none), and whether
    // they are known.
    Buffer previous;
    bool has_previous = false;
    bool updating = false;                 // `updates` has an update of it
    std::vector<OpenStep> open;            // version, version + 1, … version + ahead
    std::shared_ptr<const Slice> to_save;  // its state at the version of `waiting_save`
    LinkNumber to_save_at;                 // its replica has reached it
    std::shared_ptr<Slice> slice;          // null until live; its own ledger may be outdated
    // Not stepped: its memory is being saved, so an update uses new memory. Stepped strategies never
    // overwrite memory that is referenced elsewhere.
    bool being_saved = false;
    uint64_t saved = 0;        // the newest checkpoint that has been saved with it, here or elsewhere
    uint64_t move = 0;         // in `outgoing`: takes the slice away; 0: none
    bool frozen = false;       // it takes no runs
    bool handed_over = false;  // frozen, and held by the other server
  };
  // The fields that every push needs, kept together because a HostedSlice is large.
  struct HotSlice {
    Slice* alive = nullptr;    // the slice of its HostedSlice
    Slice* replica = nullptr;  // the slice if it is a replica; `alive` is null then
    bool ledger_outdated = false;
    bool replicated = false;  // another server has its replica
    bool moving = false;      // frozen, or as soon as no step of it is half done
    uint32_t requests = 0;
    uint64_t bytes = 0;  // bytes of gradients and values
  };
  // A move from this server.
  struct OutgoingMove {
    MoveOrder order;
    bool connected = false;
    uint64_t front = 0;  // ssp: its slices take no runs of this step or later ones
    size_t frozen = 0;   // slices
    bool sent = false;
    std::string failure;
  };
  // The slices of a move to this server, until they are ordered or the coordinator does not expect them.
  struct ArrivedMove {
    std::vector<MovedSlice> slices;
    bool in_report = false;  // the current report of the ledgers has them
    bool reported = false;   // a heartbeat has reported it, so the coordinator may make the move
  };
  // A connection to a server with replicas of slices of this one.
  struct Link {
    uint64_t id = 0;
    std::string address;
    uint64_t sent = 0, acknowledged = 0;  // numbers
    bool lost = false;
  };
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
  // How the slices of one variable are updated.
  struct Rule {
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
    void Apply(std::span<float> values, std::span<const float> pushed,
               std::span<const std::span<float>> slots, uint64_t version, float rate) const;
  };
  // The arithmetic of a completed step at one slice, prepared so that it can run on another thread. Only the
  // slice and its HostedSlice refer to its memory.
  struct StepUpdate {
    struct Part {
      std::span<const float> numbers;
      float weight = 0;
      Buffer memory;  // memory of the numbers; empty: the receive buffer
    };
    HostedSlice* hosted = nullptr;
    const Rule* rule = nullptr;
    uint64_t elements = 0, version = 0;  // the version that results
    float scale = 0;
    float rate = 1;
    Buffer sum;               // empty: nothing was added yet, and chunks suffice
    bool has_sum = false;     // the sum has a value
    std::vector<Part> parts;  // not in the sum, in lane order
    Buffer from, to;          // memory of the slice: equal if updated in place
    Buffer previous;          // in place: receives the previous values
  };
  struct Save {
    uint64_t checkpoint = 0;
    std::vector<SliceIncarnation> incarnations;
    // Stepped: referenced until saved, so that no update overwrites memory that another thread reads.
    std::vector<std::shared_ptr<const Slice>> slices;
  };
  struct Parked {
    uint64_t ticket = 0;
    bool expired = false;
    PushHeader request;
    std::vector<SliceReply> slices;
    std::vector<LinkNumber> numbers;  // numbers that replicas have to acknowledge
  };
  explicit State(ServerConfig c);

  const Rule& RuleOf(SliceId id) const { return rules[config.table.slices[id.value].variable]; }
  bool stepped() const { return config.strategy.stepped(); }
  Slice* Alive(SliceId id) const { return id.value < hot.size() ? hot[id.value].alive : nullptr; }
  static Slice* Held(const HotSlice& its) { return its.alive ? its.alive : its.replica; }
  // A member that follows the values: it gets those that it does not have, and changes nothing.
  bool Follows(NodeId member) const {
    return !followers.empty() && std::ranges::binary_search(followers, member);
  }
  // It asks for more. It is answered as if it was no member.
  bool Refuses(const PushHeader& request) const {
    if (!Follows(request.worker)) return false;
    return request.disposition != Disposition::kPull || request.step_lane || request.version_wanted > 0 ||
           request.exact;
  }
  bool NotInView(const PushHeader& request) {
    if (Refuses(request)) return true;
    // A worker with a newer view has joined after ours was made.
    return request.generation <= view->generation && request.worker != last_member && !InView(request.worker);
  }
  bool InView(NodeId worker);

  // ---- server.cc
  std::vector<LedgerReport> ReportLedgers();
  void TakeView(const Shared<View>& newer);
  void TakeOrders(const ServerHeartbeatReply& reply, LoadSlices* loads);
  void TakeOrder(const SliceOrder& order, LoadSlices* loads);
  void MakeLive(HostedSlice* hosted, std::shared_ptr<Slice> slice);  // it is live
  void DropHostedSlice(std::optional<HostedSlice>* hosted);
  std::shared_ptr<Slice> Make(const SliceOrder& order) const;
  void MoveToNewMemory(Slice* slice) const;  // other owners of the old memory keep it unchanged
  Status Fits(const Slice& slice) const;
  const Slice& WithLedger(HostedSlice* hosted);  // the slice, with its ledger updated
  std::optional<SaveShard> TakeSave(const std::optional<CheckpointOrder>& order);
  std::optional<SaveShard> TakeSaveAtVersion(const std::optional<CheckpointOrder>& order);
  // `now`: it reaches the version by what is forwarded next.
  void KeepForSave(HostedSlice* hosted, bool now);
  SaveShard BeginSave(const CheckpointOrder& order, std::vector<std::shared_ptr<const Slice>> slices);

  // ---- server_moves.cc
  bool AnyMoves() const { return !outgoing.empty() || !arrived.empty() || held_replicas > 0; }
  void TakeMoves(const ServerHeartbeatReply& reply);
  void BeginMove(const MoveOrder& order);
  void BeginFreeze(OutgoingMove* move);
  uint64_t Front(const OutgoingMove& move) const;
  void EndMove(const OutgoingMove& move);
  void FailMove(OutgoingMove* move, std::string why);
  HostedSlice* Taken(const SliceIncarnation& which);
  void ReportMoves(ServerHeartbeat* heartbeat);
  void ReportTraffic(ServerHeartbeat* heartbeat);
  // The slice of an order, which has arrived before it; null if it has not.
  std::shared_ptr<Slice> TakeArrived(const SliceOrder& order, HostedSlice* hosted);
  const Slice* FindArrived(const SliceIncarnation& which) const;
  bool Valid(const DecidedStep& decided) const;
  void TakeDecided(const std::vector<DecidedStep>& decided);
  std::vector<DecidedStep> DecidedSteps() const;
  void FreezeIfWhole(HostedSlice* hosted);
  void Freeze(HostedSlice* hosted);
  bool AnyLaneIn(const HostedSlice& hosted) const;
  // True if the slice does not take the run because it moves.
  bool HeldBack(HostedSlice* hosted, const PushRequest& request);
  SliceOutcome OutcomeWhileMoving(const HostedSlice& hosted, const PushRequest& request);
  bool StillMoving(const SliceReply& slice) const;

  // ---- server_replicas.cc: as the primary
  void TakeReplicated(const std::vector<ReplicaGroup>& groups);
  Link& LinkTo(const ReplicaGroup& group);
  void LoseLink(NodeId server);
  void DropUnusedLinks();
  // Forwards what slices have just taken (`taken_now`).
  void ForwardTaken(const PushRequest& request, std::span<const SliceRef> slices,
                    std::span<const std::span<const float>> gradients, Buffer memory);
  void ForwardChosen(uint64_t number, Step* step);
  // Forwards `decided_news`, and the steps that slices have completed by them.
  void ForwardCompleted(const std::vector<SliceId>& changed);
  bool Acknowledged(const RemoteReplica& replica, uint64_t number) const;
  bool Confirmed(const OutgoingMove& move) const;
  // The replica may lack what the reply says of its slice.
  bool Unconfirmed(const SliceReply& reply, const std::vector<LinkNumber>& numbers) const;
  // The numbers that the replicas of the slices have to acknowledge before a push is answered.
  std::vector<LinkNumber> NumbersOf(const std::vector<SliceReply>& slices) const;
  bool SaveConfirmed(const HostedSlice& hosted) const;

  // ---- server_replicas.cc: with the replica
  void TakeReplicas(const ServerHeartbeatReply& reply);
  // True if the replica goes on in this epoch, under another primary or as the primary.
  bool GoesOn(const HostedSlice& hosted, const SliceIncarnation& which, uint64_t epoch) const;
  bool HasArrived(uint64_t move, const SliceIncarnation& which) const;
  void Promote(HostedSlice* hosted, const SliceOrder& order);
  HostedSlice* MakeReplica(const SliceIncarnation& which, uint64_t epoch);
  // The slice as a replica of that epoch; null if it is none.
  HostedSlice* ReplicaOf(const SliceRef& ref, uint64_t epoch);
  // Slice `i` of a forward. False if the slice is then not what its primary is.
  bool TakeForwarded(HostedSlice* hosted, const ForwardRequest& request, size_t i,
                     std::span<const float> gradient, const Step** agreed);
  bool Arriving(const SliceIncarnation& which) const;
  void ReportLost(ServerHeartbeat* heartbeat);

  // ---- server_push.cc
  bool FitsStrategy(const StepLane& step_lane) const;
  Status CheckStepLane(const PushRequest& request) const;
  Status CheckRun(const PushRequest& request) const;
  // `gradients`: one per slice, or none; `replies` has one element per slice.
  void Apply(const PushRequest& request, std::span<const SliceRef> slices,
             std::span<const std::span<const float>> gradients, SliceReply* replies, const Buffer& memory);
  // A run at one slice, which is here. `agreed` as of TakeLane.
  SliceOutcome Take(Slice* slice, const PushRequest& request, const SliceRef& ref,
                    std::span<const float> gradient, const Step** agreed);
  void Update(Slice* slice, std::span<const float> gradient, uint64_t seen_version, float rate) {
    const uint64_t staleness = slice->version - std::min(seen_version, slice->version);
    ++slice->version;
    if (!config.modelled) UpdateValues(slice, gradient, staleness, rate);
    Measure(staleness);
  }
  void UpdateValues(Slice* slice, std::span<const float> gradient, uint64_t staleness, float rate);
  void Measure(uint64_t staleness) {
    if (forwarding) return;
    const size_t bin = std::min<uint64_t>(staleness, kMaxStalenessBins - 1);
    if (bin >= progress.staleness.size()) progress.staleness.resize(bin + 1);
    ++progress.staleness[bin];
    progress.staleness_sum += staleness;
    ++progress.staleness_count;
  }
  bool Waits(const Parked& request);
  bool Unready(const Parked& request);
  PushReply Answer(Parked request);

  // ---- server_steps.cc
  // Takes a run at one slice. `agreed`: the step known to contain the run in this lane; null for the first
  // slice of a push.
  SliceOutcome TakeLane(HostedSlice* hosted, const PushRequest& request, const SliceRef& ref,
                        std::span<const float> gradient, const Step** agreed);
  // Takes the sender's knowledge of the lanes that count. kInvalidArgument if it contradicts what is known.
  Status TakeCounted(const PushRequest& request);
  // Whether this server decides. Not while the slice moves: the other server would not know.
  bool Decides() const { return Alive(SliceId(0)) && !hosted_slices[0]->frozen; }
  // On the server with slice 0: decides the lanes that count as soon as enough have arrived.
  void Decide(const PushRequest& request);
  bool IsWhole(uint64_t step, uint32_t lane) const;
  void ChooseLanes(Step* step);  // among those that are whole
  void DecideAgain();
  void SettleDecisions();
  Step* FindStep(uint64_t step) {
    if (!found || found_number != step) FindAnother(step);
    return found;
  }
  void FindAnother(uint64_t step);
  // Null if it contradicts an open step, or if there are too many.
  Step* OpenStepOf(const StepLane& step_lane) {
    Step* const step = FindStep(step_lane.step);
    if (!step) return MakeStep(step_lane);
    return step->width == step_lane.width && step->needed == step_lane.needed ? step : nullptr;
  }
  Step* MakeStep(const StepLane& step_lane);
  bool Complete(const OpenStep& open, const Step& step) const;
  static bool MayComplete(const HostedSlice& hosted) {
    return !hosted.is_replica || hosted.slice->version < hosted.reach;
  }
  void NoteDecided(uint64_t number, const Step& step);
  void CompleteAll();  // after NoteDecided
  // Completes the slice's steps as long as their lanes have arrived. The last gradient, of `lane` of the
  // first step, is still in the receive buffer.
  void CompleteSteps(HostedSlice* hosted, uint32_t lane = 0, std::span<const float> gradient = {});
  void CompleteStep(HostedSlice* hosted, Step* step, uint32_t lane, std::span<const float> gradient);
  void UpdateByStep(HostedSlice* hosted, const Step& step, uint64_t events, uint32_t lane,
                    std::span<const float> gradient);
  static void Run(const StepUpdate& update);
  void RunUpdates();
  void Give(StepUpdate update);
  void Keep(HostedSlice* hosted, OpenStep* open, const Step& step, uint32_t lane,
            std::span<const float> gradient);
  void RecordStepOutcome(uint64_t number, const Step& step, std::optional<uint32_t> rejected_lane,
                         bool applied);
  void RebuildClaims();
  void Prune();  // forgets old steps
  void Clear(OpenStep* open);
  Buffer TakeBuffer(uint64_t elements);
  Buffer TakeMemory(uint64_t bytes);
  Buffer NewMemory(uint64_t bytes) const { return config.allocate ? config.allocate(bytes) : Buffer(bytes); }
  void GiveBuffer(Buffer buffer);

  ServerConfig config;
  std::vector<Rule> rules;  // by variable
  NodeId node;
  uint64_t term = 0;  // term of the coordinator that it follows
  Shared<View> view = View();
  std::vector<NodeId> members;        // members of the view, ordered
  std::vector<NodeId> followers;      // members with the role kServe, ordered
  bool none_missing = false;          // members are contiguous
  std::optional<NodeId> last_member;  // the last one found: every slice of a push asks for the same
  std::vector<Position> start;
  std::vector<std::optional<HostedSlice>> hosted_slices;  // by slice id
  std::vector<HotSlice> hot;                              // by slice id
  size_t count_alive = 0;
  SliceLedgers ledgers;   // ledgers of live slices
  LedgerReports reports;  // reports of `ledgers`
  std::string failure;
  std::optional<Save> saving;
  std::optional<CheckpointOrder> waiting_save;  // stepped: not all slices have reached its version
  uint64_t last_checkpoint = 0;
  std::optional<ShardReport> shard;
  ServerProgress progress;
  uint32_t consecutive_rejected = 0;
  std::optional<RejectedRun> rejected;
  bool heartbeat_urgent = false;  // the coordinator waits for it
  bool leaving = false;

  std::map<uint64_t, OutgoingMove> outgoing;
  std::map<uint64_t, ArrivedMove> arrived;
  std::vector<MoveAction> move_actions;
  std::map<NodeId, Link> links;                    // by server with replicas
  std::map<NodeId, LinkNumber> link_of;            // by primary: the last number that has been taken here
  std::vector<LostReplica> lost_here;              // ordered, and not here
  std::vector<ForwardAction> forward_actions;      // in order
  std::vector<std::pair<size_t, bool>> taken_now;  // slices of a push, and whether their versions changed
  std::vector<DecidedStep> decided_news;           // decided steps that replicas do not know
  size_t held_replicas = 0;
  bool forwarding = false;  // a forwarded push is applied: the primary measures its staleness
  uint64_t heartbeats = 0;
  uint32_t traffic_reported = 0;  // slices before it, in the current round of reports

  std::vector<Parked> parked;
  bool wake = false;  // a parked request may have become ready

  std::map<uint64_t, Step> steps;
  // Cache of the last lookup, because each slice of a push asks for the same. Null after any step is erased.
  Step* found = nullptr;
  uint64_t found_number = 0;
  // Runs that slices have recorded or that lanes of open steps contain. Prevents a run from being taken in
  // two lanes.
  Ledger claims;
  bool claims_outdated = true;
  uint64_t outcomes_recorded = 0;                           // steps below it are counted as rejected or not
  std::unordered_map<uint64_t, std::vector<Buffer>> spare;  // by bytes
  bool defer_updates = false;                               // collect updates for RunUpdates
  std::vector<StepUpdate> updates;
};

}  // namespace leat::protocol
