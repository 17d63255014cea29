// The worker's state, for its own sources: worker.cc (inputs from the shell and the coordinator),
// worker_runs.cc (computing and pushing runs), worker_steps.cc (the order of runs in stepped strategies),
// worker_exchanges.cc (requests to servers until they are answered).
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "protocol/worker/worker.h"

namespace leat::protocol {

struct Worker::State {
  struct HeldLease {
    Lease lease;
    bool ready = false;
    // Stepped: `assigned` up to the last missing run; run k belongs to step first_step + k. Otherwise
    // `missing`.
    std::vector<uint32_t> runs;
    uint32_t next = 0;  // index in `runs`; those before it are pushed or not needed

    bool done() const { return next >= runs.size(); }
    uint64_t step() const { return lease.first_step + next; }
    // Stepped: slices at this version have completed all its steps.
    uint64_t end() const { return lease.first_step + runs.size(); }
    StepLane step_lane() const { return {step(), lease.lane, lease.width, lease.needed}; }
  };
  // A version of one incarnation of a slice.
  struct Seen {
    Incarnation incarnation;
    uint64_t version = 0;
  };
  // A request to one server, repeated until it is answered or the view makes it obsolete. Sized to one cache
  // line, because a simulator has tens of thousands of them.
  struct alignas(64) Exchange {
    NodeId server;
    std::shared_ptr<PushRequest> request;
    Time sent{0};
    Time at{0};                      // in flight: when to give up; else when to send again
    const Member* member = nullptr;  // the server in the view; null: not there
    uint32_t first = 0, end = 0;     // indices of its slices
    bool contacted = false;          // there may be a connection to it
    bool open = false;               // part of the current pull or push, and not answered
    bool in_flight = false;
    // The reply waits for a version.
    bool waits() const { return request->want_values && request->version_wanted > 0; }
  };
  enum class Phase : uint8_t { kIdle, kPulling, kComputing, kPushing };
  // The run being computed or pushed.
  struct Run {
    bool active = false;
    uint64_t lease = 0;
    uint32_t index = 0;  // index in HeldLease::runs
    uint32_t run = 0;    // index in the cut
    uint32_t begin = 0;  // first of its batches
    uint32_t end = 0;
    uint32_t batch = 0;  // the next, or the current one
    uint32_t events = 0;
    bool rejected = false;
    bool clean = true;           // no slice has refused it or become unavailable
    bool conflict = false;       // a slice has refused it
    std::vector<SliceRef> from;  // by index: the values of its first batch; empty: still equal to `known`
    uint64_t version = 0;        // lowest of them
    float rate = 1;              // rate of its lease
    bool fetch = true;           // its push requests values
  };
  // A slice that has not taken the run that is pushed, because it moves.
  struct Untaken {
    SliceRef ref;
    Time at{0};  // when to push it again, if no newer view comes before
  };
  // Backup workers: the lanes that count in the newest decided step.
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
    for (uint32_t index = 0; index < known.size(); ++index) Forget(index);
  }
  void Forget(uint32_t index) {
    known[index] = {known[index].slice, {}, 0};
    lacking = true;
  }
  bool StartPull(Time now, bool all);
  void StartPush(Time now, const HeldLease& split);
  void BeginPush(Time now, const HeldLease& split);
  void FinishPush(Time now);
  void RepeatPush(Time now);
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
  uint64_t SeenAt(uint32_t index) const;
  const std::pair<uint64_t, uint64_t>& SeenRange();
  std::optional<NodeId> Decider() const;
  void AttachCountedLanes(Exchange* exchange) const;
  void TakeCounted(Time now, const Exchange& exchange, const PushReply& reply);
  uint32_t RoundsHeld() const;

  // ---- worker_exchanges.cc
  static PushRequest& Fresh(Exchange* exchange);
  static PushRequest& Own(Exchange* exchange);
  std::vector<Exchange>::iterator PositionOf(NodeId server);
  Exchange& ExchangeWith(NodeId server);
  void ArrangeExchanges();
  PushRequest& Open(Exchange* exchange, Disposition disposition);
  void AddSlice(Exchange* exchange, uint32_t index, uint64_t version, Disposition disposition);
  // Adds pulls of the slices for which `wanted` is true, by index, to the next Begin.
  template <class Wanted>
  void AddPulls(const Wanted& wanted) {
    for (Exchange& exchange : exchanges) {
      for (uint32_t index = exchange.first; index < exchange.end; ++index) {
        if (wanted(index)) AddSlice(&exchange, index, 0, Disposition::kPull);
      }
    }
  }
  void Begin(Time now, Phase what);
  void Send(Time now, Exchange* exchange);
  void FinishExchange(Time now, Exchange* exchange);
  Duration BackOff(uint32_t earlier, Duration longest);
  void Retry(Time now, Exchange* exchange, Duration after);
  void NoteFailure(Time now, Exchange* exchange);
  std::vector<NodeId> Unreachable(Time now) const;
  void DropExchanges(const View& newer);
  void TakeReply(Time now, const Exchange& exchange, const PushReply& reply);
  void OnConflict(Time now);
  void PauseUntil(Time at) { resume_at = std::max(resume_at.value_or(at), at); }
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
  void GiveUpLeases();
  bool Waiting() const;
  void Stop(bool evicted);
  WorkerActions Take() { return std::exchange(actions, {}); }

  // The fields that every reply needs come first, within kNearBytes.
  static constexpr size_t kNearBytes = 256;
  std::vector<Exchange> exchanges;  // by server, ordered; exchanges of an earlier pull or push are not open
  size_t open = 0;                  // open exchanges
  uint64_t first_sequence = 0;      // first sequence of the current pull or push
  // Slices are indexed by server, then id, so that those of one reply are adjacent. Slices without a server
  // come last.
  std::vector<SliceRef> known;     // by index: the slice, and which of its values are in memory
  std::vector<uint64_t> released;  // not acknowledged by the coordinator yet
  size_t reported = 0;             // entries of `released` in the pending heartbeat
  uint32_t ended = 0;              // splits since the last answered heartbeat; not stepped
  bool view_wanted = false;
  bool leaving = false;
  bool stopped = false;
  bool view_ready = false;  // and contains the slices of the table
  bool lacking = true;      // some slices may lack values of their current incarnation
  Phase phase = Phase::kIdle;
  WorkerActions actions;
  WorkerConfig config;

  NodeId node;
  uint64_t term = 0;         // term of the coordinator that it follows
  bool introduces = false;   // a new one has not answered with its term yet: its leases are reported in full
  uint32_t since_fetch = 0;  // downpour: batches since values were requested
  uint64_t last_sequence = 0;
  uint64_t push_retries = 0;
  std::vector<Incarnation> incarnations;  // by index: as of the view
  std::vector<Seen> seen;                 // stepped, by index: the newest version reported by its server
  std::vector<uint32_t> index_of;         // by slice
  std::optional<std::pair<uint64_t, uint64_t>> seen_range;  // lowest and highest; computed on demand
  std::optional<Time> resume_at;  // refused by a server: nothing new before this time
  uint32_t conflicts_in_a_row = 0;
  Run run;
  std::vector<Untaken> untaken;
  // Servers whose requests fail. A reply that does not come says nothing, since a step may take any time.
  struct Failing {
    Time since = Time::max();  // or since a reply has been late; max(): only silent
    Time last = Time::min();
    uint32_t in_a_row = 0;
    bool silent = false;  // nothing comes from its host
  };
  std::map<NodeId, Failing> failing;
  Shared<View> view = View();
  std::map<uint64_t, HeldLease> held;
  std::deque<uint64_t> order;  // leases in `held`, in the order of leasing
  uint64_t last_token = 0;

  // Every slice has completed the steps before this one, as a server's answer has shown.
  uint64_t settled = 0;
  // The awaited versions allow steps from here on; a lower available step goes first.
  uint64_t goal = 0;
  std::optional<Time> interrupt_at;
  std::optional<LaneDecision> decided;
  std::optional<Time> ask_at;  // query the versions of slices not before this
  // the step and time of the last pull that returned no newer values
  std::optional<std::pair<uint64_t, Time>> last_pull;
  Rng rng{0};  // randomness of pauses
};

}  // namespace leat::protocol
