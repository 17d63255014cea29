// The run that a worker computes or pushes, and the pull or push in progress.
//
// A run is begun, computed batch by batch, and pushed to all slices of the incarnations that it was computed
// on. Slices that have not taken it, because they move, are pushed again until they have; those that are
// restored lack it, so that it is leased again. Invariants: one phase at a time; a phase of pulling has open
// exchanges; one of pushing has open exchanges or slices that have not taken the run. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "protocol/push/exchanges.h"
#include "protocol/strategy.h"

namespace leat::protocol {

class CurrentRun {
 public:
  enum class Phase : uint8_t { kIdle, kPulling, kComputing, kPushing };

  // The arguments outlive it.
  CurrentRun(const StrategyConfig& strategy, SliceVersions& versions, Exchanges& exchanges, Retries& retries,
             WorkerOutbox& outbox)
      : versions_(versions), exchanges_(exchanges), outbox_(outbox), retries_(retries), strategy_(strategy) {}

  Phase phase() const { return phase_; }
  bool active() const { return run_.active; }
  uint64_t lease() const { return run_.lease; }
  uint32_t index() const { return run_.index; }  // in the runs of its lease
  bool conflict() const { return run_.conflict; }

  // ---- pulling
  // Downpour: its values are to be requested.
  bool FetchDue() const {
    return strategy_.kind == StrategyKind::kDownpour && since_fetch_ >= std::max(strategy_.n_fetch, 1u);
  }
  // True if a pull has begun: of slices without values of their current incarnation, or of `all`.
  bool Pull(Time now, bool all);
  void BeginPull(Time now) { Begin(now, Phase::kPulling); }  // the open exchanges are filled in
  void EndPull() {
    if (phase_ != Phase::kPushing) phase_ = Phase::kIdle;
  }

  // ---- computing
  // `index` in the runs of the lease, `run` in its cut.
  void Start(const Lease& lease, uint32_t index, uint32_t run);
  void ComputeNext();
  bool Awaits(uint64_t token) const { return phase_ == Phase::kComputing && token == last_token_; }
  void EndBatch() { phase_ = Phase::kIdle; }
  // True if the batch was the run's last.
  bool Count(const BatchOutcome& outcome);
  // Revoked or left between two of its batches: local steps are not undone.
  void Abandon();

  // ---- pushing: the exchanges are opened, filled in with the run of this cut, and sent
  void OpenPush();
  void FillPush(const Cut& cut);
  void BeginPush(Time now) { Begin(now, Phase::kPushing); }
  // Opens the exchanges again with slices that have not taken the run, where they are now. A run that is not
  // `held` any more is not pushed again.
  void OpenAgain(Time now, bool held, bool leaving);
  bool taken() const { return untaken_.empty(); }
  // The push is over. True if every slice has it.
  bool End() {
    phase_ = Phase::kIdle;
    run_.active = false;
    if (run_.clean) conflicts_in_a_row_ = 0;
    return run_.clean;
  }
  void GiveUp() {
    untaken_.clear();
    phase_ = Phase::kIdle;
    run_.active = false;
  }
  void Stop() { untaken_.clear(); }

  // ---- from servers and the view
  void TakeReply(Time now, const Exchange& exchange, const PushReply& reply);
  void OnDropped(const Exchanges::Dropped& dropped);
  Time next_timer() const;

 private:
  struct Run {
    bool active = false;
    uint64_t lease = 0;
    uint32_t index = 0;
    uint32_t run = 0;    // index in the cut
    uint32_t begin = 0;  // first of its batches
    uint32_t end = 0;
    uint32_t batch = 0;  // the next, or the current one
    uint32_t events = 0;
    bool rejected = false;
    bool clean = true;           // no slice has refused it or become unavailable
    bool conflict = false;       // a slice has refused it
    std::vector<SliceRef> from;  // by slice: the values of its first batch; empty: still equal to those known
    uint64_t version = 0;        // lowest of them
    float rate = 1;              // rate of its lease
    bool fetch = true;           // its push requests values
  };
  // A slice that has not taken the run that is pushed, because it moves.
  struct Untaken {
    SliceRef ref;
    Time at{0};  // when to push it again, if no newer view comes before
  };

  void Begin(Time now, Phase what);
  Disposition RunDisposition() const;
  void OnConflict(Time now);

  // The fields that every reply needs come first; see Worker::kNearBytes.
  SliceVersions& versions_;
  Exchanges& exchanges_;
  WorkerOutbox& outbox_;
  Phase phase_ = Phase::kIdle;
  Run run_;
  Retries& retries_;
  const StrategyConfig& strategy_;
  std::vector<Untaken> untaken_;
  uint32_t since_fetch_ = 0;  // downpour: batches since values were requested
  uint32_t conflicts_in_a_row_ = 0;
  uint64_t last_token_ = 0;
};

}  // namespace leat::protocol
