// The worker as a state machine: takes leases, pulls values, computes and pushes. Its parts do the work:
// HeldSplits (the leases), RunOrder (which run is next), CurrentRun (computing and pushing it), Exchanges
// (requests to servers) and SliceVersions (what is known of the slices). The worker asks them what is due.
//
// Stepped strategies: it processes the steps of its leases in order. To compute a run of step s, all slices
// must be at version s (ssp: at least s - staleness). Its last push in a step requests the values of the next
// step, and the server replies when they exist. It releases a lease once every slice is known to have
// completed the lease's last step, so a released lease is recorded. Runs whose step completed without them
// (backup workers) are given up and not recorded. If slices are restored from a checkpoint, it releases all
// leases, and the steps are repeated from there.
//
// It uses no sockets, threads or clock. A shell executes the actions and reports their results. An action
// that starts something has a token, which its answer repeats; answers with outdated tokens are ignored. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "protocol/leases/held/run_order.h"
#include "protocol/messages_data.h"

namespace leat::protocol {

struct WorkerConfig {
  SliceTable table;
  StrategyConfig strategy;
  // The minimum number of splits held: one in training, the next being decoded. A worker that ends more than
  // one between two heartbeats requests twice as many as it ended, so as not to wait for the next.
  uint32_t leases_ahead = 2;
  // Values are pulled even if there is nothing to train: the shell scores events with them (has_values), or
  // the worker stands by, with a connection to each server.
  bool always_pull = false;
  bool late_labels = false;  // the job has late labels: each lease has its own; others are released
  RetryTimes times = {};
};

class Worker {
 public:
  explicit Worker(WorkerConfig config);
  // Its parts know each other by reference.
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // `term`: of the coordinator.
  void OnJoined(NodeId node, uint64_t term = 0) {
    node_ = node;
    term_ = term;
    exchanges_.OnJoined(node);
    retries_.OnJoined(node);
  }
  // ---- control plane. The shell fills in `progress`.
  WorkerHeartbeat MakeHeartbeat(Time now);
  // True if a heartbeat should be sent without waiting for the interval: the worker needs leases, or has
  // ended some.
  bool HeartbeatUrgent() const {
    return !stopped_ && (splits_.has_news() || outbox_.view_wanted || introduces_ || gone());
  }
  WorkerActions OnHeartbeatReply(Time now, const WorkerHeartbeatReply& reply);
  // Stops after the current batch and the push of what is computed; gives up open leases.
  WorkerActions Leave(Time now) {
    leaving_ = true;
    return Advanced(now);
  }

  // ---- input
  WorkerActions OnSplitReady(Time now, uint64_t lease) {
    if (HeldSplit* const split = splits_.Find(lease)) split->ready = true;
    return Advanced(now);
  }
  // The split could not be read: releases the lease. The shell decides when to give up.
  WorkerActions OnSplitFailed(Time now, uint64_t lease) {
    if (splits_.Holds(lease)) splits_.Release(lease);
    return Advanced(now);
  }
  // ---- compute
  WorkerActions OnComputed(Time now, uint64_t token, const BatchOutcome& outcome);
  // ---- data plane
  WorkerActions OnPushReply(Time now, NodeId server, const PushReply& reply);
  WorkerActions OnPushFailed(Time now, NodeId server, uint64_t sequence, const Status& why);
  // Nothing comes from the server's host, not even an answer to an attempt to connect, or something comes
  // again; see ps::Client::Events. The server is reported as unreachable while a request to it is open.
  void OnSilence(NodeId server, bool silent) { retries_.OnSilence(server, silent); }
  WorkerActions OnTimer(Time now) {
    if (stopped_) return {};
    exchanges_.RepeatLate(now, leaving_);
    return Advanced(now);
  }
  // When to call OnTimer; Time::max() for never.
  Time next_timer() const;

  const View& view() const { return exchanges_.view(); }
  uint64_t term() const { return term_; }  // term of the coordinator that it follows
  // The lease while it is held, else null.
  const Lease* FindLease(uint64_t lease) {
    const HeldSplit* const split = splits_.Find(lease);
    return split ? &split->lease : nullptr;
  }
  bool idle() const { return splits_.empty(); }  // nothing leased
  // The values of all slices are in memory, as of some earlier time.
  bool has_values() const {
    return exchanges_.ready() && run_.phase() != Phase::kPulling && !versions_.LacksAny();
  }
  // A run, of which no batch or not all have been computed.
  bool computing() const { return run_.phase() == Phase::kComputing; }
  // As of the view.
  bool stands_by() const {
    const Member* const self = exchanges_.view().Find(node_);
    return self != nullptr && self->state == Member::State::kStandby;
  }
  uint64_t push_retries() const {
    return retries_.count();
  }  // requests that failed or were not answered in time

 private:
  friend struct PrefetchHints;
  using Phase = CurrentRun::Phase;

  // Starts what is due, until there is nothing to do but wait.
  void Advance(Time now);
  void TakeView(const Shared<View>& newer);
  void Stop(bool evicted);
  // A worker that leaves, and has nothing more to do.
  bool gone() const { return leaving_ && run_.phase() == Phase::kIdle && splits_.empty(); }
  // Waits for others, not for its own input or computation.
  bool Waiting() const {
    if (run_.phase() != Phase::kIdle) return run_.phase() != Phase::kComputing;
    // Reading a split is work; what is ready waits for a step or a server.
    return splits_.FirstIsReady();
  }
  WorkerActions Take() { return std::exchange(outbox_.actions, {}); }
  WorkerActions Advanced(Time now) {
    Advance(now);
    return Take();
  }

  const WorkerConfig config_;
  Retries retries_;

  // The fields that every reply needs: kNearBytes from here.
  static constexpr size_t kNearBytes = 384;
  bool leaving_ = false;
  bool stopped_ = false;
  bool introduces_ = false;  // a new coordinator has not answered with its term yet: all leases are reported
  WorkerOutbox outbox_;
  SliceVersions versions_;
  Exchanges exchanges_;
  CurrentRun run_;

  HeldSplits splits_;
  RunOrder order_;
  NodeId node_;
  uint64_t term_ = 0;
};

}  // namespace leat::protocol
