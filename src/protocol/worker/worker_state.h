// What a worker remembers. Internal to the worker: worker.cc is what the shell and the coordinator say,
// worker_runs.cc how runs are computed and pushed, worker_steps.cc which run is next where steps are counted,
// worker_exchanges.cc requests to servers until they are answered.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "protocol/worker/worker.h"

namespace leat::protocol {

struct Worker::State {
  struct HeldLease {
    Lease lease;
    bool ready = false;
    // Stepped: `assigned` up to the last one missing, run k is of step first_step + k; else `missing`.
    std::vector<uint32_t> runs;
    uint32_t next = 0;  // of `runs`: those before it have been pushed, or are not asked for

    bool done() const { return next >= runs.size(); }
    uint64_t step() const { return lease.first_step + next; }
    // Stepped: slices of this version have all of them behind them.
    uint64_t end() const { return lease.first_step + runs.size(); }
    StepLane step_lane() const { return {step(), lease.lane, lease.width, lease.needed}; }
  };
  // A version of one life of a slice.
  struct Seen {
    Incarnation incarnation;
    uint64_t version = 0;
  };
  // One request to one server, repeated until it is answered or the view says that it cannot be. One line of
  // the cache: a simulator has tens of thousands of them.
  struct alignas(64) Exchange {
    NodeId server;
    std::shared_ptr<PushRequest> request;
    Time sent{0};
    Time at{0};                      // in flight: given up then; else sent again then
    const Member* member = nullptr;  // the server's, in the view; null: it is not there
    uint32_t first = 0, end = 0;     // places of its slices
    bool contacted = false;          // there may be a connection to it
    bool open = false;               // of the pull or push under way, and not answered
    bool in_flight = false;
    // The answer waits for others.
    bool waits() const { return request->want_values && request->version_wanted > 0; }
  };
  enum class Phase : uint8_t { kIdle, kPulling, kComputing, kPushing };
  // The run that is being computed or pushed.
  struct Run {
    bool active = false;
    uint64_t lease = 0;
    uint32_t place = 0;  // in HeldLease::runs
    uint32_t run = 0;    // of the cut
    uint32_t begin = 0;  // of its batches
    uint32_t end = 0;
    uint32_t batch = 0;  // the next, or the one under way
    uint32_t events = 0;
    bool rejected = false;
    bool clean = true;           // no slice has refused it or gone missing
    std::vector<SliceRef> from;  // by place: the values of its first batch; empty: they still are `known`
    uint64_t version = 0;        // lowest of them
  };
  // Backup workers: the lanes that count in the newest step that is known to be decided.
  struct LaneDecision {
    StepLane step_lane;
    std::vector<uint64_t> counted;
    bool Has(uint32_t lane) const { return (counted[lane / 64] >> (lane % 64) & 1) != 0; }
  };

  explicit State(WorkerConfig c);

  const StrategyConfig& strategy() const { return config.strategy; }
  bool stepped() const { return config.strategy.stepped(); }

  // ---- worker_runs.cc
  void Advance(Time now);
  bool AdvanceRuns(Time now);
  void StartRun(HeldLease& split);
  void ComputeNext();
  void OnBatch(Time now, const BatchOutcome& outcome);
  void AbandonRun();
  void ForgetValues() {
    for (uint32_t place = 0; place < known.size(); ++place) Forget(place);
  }
  void Forget(uint32_t place) {
    known[place] = {known[place].slice, {}, 0};
    lacking = true;
  }
  bool StartPull(Time now, bool all);
  void StartPush(Time now, const HeldLease& split);
  Disposition RunDisposition() const;

  // ---- worker_steps.cc
  bool AdvanceSteps(Time now);
  void SkipCompletedRuns(HeldLease* split);
  void SettleLeases();
  HeldLease* NextStep();
  bool StepIsOver(const Lease& lease, uint64_t step);
  bool StartStepPull(Time now, uint64_t step);
  bool QueryCountedLanes(Time now, const HeldLease& next);
  bool QueryVersions(Time now);
  bool HasEarlierStep();
  bool Interrupt(Time now);
  bool LastOfStep(const HeldLease& split) const;
  void AddWaiting(const HeldLease& split);
  uint64_t SeenOf(SliceId slice) const;
  uint64_t SeenAt(uint32_t place) const;
  const std::pair<uint64_t, uint64_t>& SeenRange();
  std::optional<NodeId> Decider() const;
  void AttachCountedLanes(Exchange* exchange) const;
  void TakeCounted(Time now, const Exchange& exchange, const PushReply& reply);
  uint32_t RoundsHeld() const;

  // ---- worker_exchanges.cc
  static PushRequest& Fresh(Exchange* exchange);
  static PushRequest& Own(Exchange* exchange);
  std::vector<Exchange>::iterator PlaceOf(NodeId server);
  Exchange& ExchangeWith(NodeId server);
  void ArrangeExchanges();
  PushRequest& Open(Exchange* exchange, Disposition disposition);
  void AddSlice(Exchange* exchange, uint32_t place, uint64_t version, Disposition disposition);
  // Pulls the slices that `wanted` is true of, by place, with the next Begin.
  template <class Wanted>
  void AddPulls(const Wanted& wanted) {
    for (Exchange& exchange : exchanges) {
      for (uint32_t place = exchange.first; place < exchange.end; ++place) {
        if (wanted(place)) AddSlice(&exchange, place, 0, Disposition::kPull);
      }
    }
  }
  void Begin(Time now, Phase what);
  void Send(Time now, Exchange* exchange);
  void FinishExchange(Time now, Exchange* exchange);
  void Retry(Time now, Exchange* exchange);
  void DropExchanges(const View& newer);
  void TakeReply(Time now, const Exchange& exchange, const PushReply& reply);
  void OnLate(Time now);
  const Exchange* Asked(NodeId server, uint64_t sequence) const;
  Exchange* Find(NodeId server, uint64_t sequence);

  // ---- worker.cc
  void TakeView(const Shared<View>& newer);
  void TakeLease(const Lease& lease);
  uint32_t LeasesWanted() const;
  void Drop(uint64_t id);
  void Release(uint64_t id);
  void ReleaseAll();
  void Stop(bool evicted);
  WorkerActions Take() { return std::exchange(actions, {}); }

  // What every reply looks at comes first, in kNearBytes.
  static constexpr size_t kNearBytes = 256;
  std::vector<Exchange> exchanges;  // one a server, ordered; those of an earlier pull or push are not open
  size_t open = 0;                  // of them
  uint64_t first_sequence = 0;      // of the pull or push under way
  // Slices have places: the exchange with the first server has the first, and so on, by id in each, so that
  // what a reply is about lies together. What the view does not place comes last.
  std::vector<SliceRef> known;     // by place: the slice, and which values of it are in memory
  std::vector<uint64_t> released;  // not yet acknowledged by the coordinator
  size_t reported = 0;             // of `released`, in the heartbeat under way
  uint32_t ended = 0;              // splits, since a heartbeat was answered; not stepped
  bool view_wanted = false;
  bool leaving = false;
  bool stopped = false;
  bool view_ready = false;  // and of the slices of the table
  bool lacking = true;      // there may be slices whose values are not known in their present life
  Phase phase = Phase::kIdle;
  WorkerActions actions;
  WorkerConfig config;

  NodeId node;
  uint32_t since_fetch = 0;  // downpour: batches since values were asked for
  uint64_t last_sequence = 0;
  std::vector<Incarnation> incarnations;  // by place: as of the view
  std::vector<Seen> seen;                 // stepped, by place: the newest version that its server has told of
  std::vector<uint32_t> place_of;         // by slice
  std::optional<std::pair<uint64_t, uint64_t>> seen_range;  // lowest and highest, once they were asked for
  std::optional<Time> resume_at;  // a server has turned us away: nothing new before this
  Run run;
  Shared<View> view = View();
  std::map<uint64_t, HeldLease> held;
  std::deque<uint64_t> order;  // of `held`, as leased
  uint64_t last_token = 0;

  // What is waited for lets steps from here on go on: a lower one that can be had comes first.
  uint64_t goal = 0;
  std::optional<Time> interrupt_at;
  std::optional<LaneDecision> decided;
  std::optional<Time> ask_at;                          // not before this, how far the slices are
  std::optional<std::pair<uint64_t, Time>> last_pull;  // the step that values were last pulled for in vain
};

}  // namespace leat::protocol
