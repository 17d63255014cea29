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
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "protocol/actions.h"
#include "protocol/messages_control.h"
#include "protocol/messages_data.h"
#include "protocol/push/retries.h"
#include "protocol/strategy.h"

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
  ~Worker();

  // `term`: of the coordinator.
  void OnJoined(NodeId node, uint64_t term = 0);
  // ---- control plane. The shell fills in `progress`.
  WorkerHeartbeat MakeHeartbeat(Time now);
  // True if a heartbeat should be sent without waiting for the interval: the worker needs leases, or has
  // ended some.
  bool HeartbeatUrgent() const;
  WorkerActions OnHeartbeatReply(Time now, const WorkerHeartbeatReply& reply);
  // Stops after the current batch and the push of what is computed; gives up open leases.
  WorkerActions Leave(Time now);

  // ---- input
  WorkerActions OnSplitReady(Time now, uint64_t lease);
  // The split could not be read: releases the lease. The shell decides when to give up.
  WorkerActions OnSplitFailed(Time now, uint64_t lease);
  // ---- compute
  WorkerActions OnComputed(Time now, uint64_t token, const BatchOutcome& outcome);
  // ---- data plane
  WorkerActions OnPushReply(Time now, NodeId server, const PushReply& reply);
  WorkerActions OnPushFailed(Time now, NodeId server, uint64_t sequence, const Status& why);
  // Nothing comes from the server's host, not even an answer to an attempt to connect, or something comes
  // again; see ps::Client::Events. The server is reported as unreachable while a request to it is open.
  void OnSilence(NodeId server, bool silent);
  WorkerActions OnTimer(Time now);
  // When to call OnTimer; Time::max() for never.
  Time next_timer() const;

  const View& view() const;
  uint64_t term() const;  // term of the coordinator that it follows
  // The lease while it is held, else null.
  const Lease* FindLease(uint64_t lease) const;
  bool idle() const;  // nothing leased
  // The values of all slices are in memory, as of some earlier time.
  bool has_values() const;
  bool computing() const;         // a run, of which no batch or not all have been computed
  bool stands_by() const;         // as of the view
  uint64_t push_retries() const;  // requests that failed or were not answered in time

 private:
  friend struct PrefetchHints;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace leat::protocol
