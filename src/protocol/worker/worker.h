// The worker as a state machine: leases in, pulls, computations and pushes out.
//
// Stepped strategies: it goes through the steps of its leases in order. To compute a run of step s it has all
// slices at version s (ssp: at s - staleness or newer); what it pushes last in a step asks for the values of
// the next one, and the server's answer waits until they are there. A lease is given back once every slice is
// known to have completed its last step, so that what was released is noted. Runs whose step was completed
// without them (backup workers) are given up and stay out of the ledgers. When slices come back from a
// checkpoint, all leases are given back: steps are gone through again from there.
//
// No socket, thread or clock inside. A shell carries out the actions and feeds back what became of them; each
// action that starts something carries a token that its answer repeats, and an answer to an outdated token is
// dropped. Not thread-safe.
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
#include "protocol/strategy.h"

namespace leat::protocol {

struct WorkerConfig {
  SliceTable table;
  StrategyConfig strategy;
  // Splits held at a time, at least: one being trained, the next being decoded. Who ends more than one
  // between two heartbeats asks for twice as many as that, so as never to wait for the next one.
  uint32_t leases_ahead = 2;
  Duration reply_timeout = std::chrono::seconds(10);  // for a server's reply, before it is asked again
  Duration retry_interval = std::chrono::milliseconds(50);
};

// Score and train one batch of a prepared split on the values in memory. Always answered by OnComputed,
// even when the split has been dropped meanwhile; nothing else is computed before. The batches of a run come
// one after the other; what is pushed at its end is, by strategy, the gradient of its one batch, the sum of
// its batches' gradients (downpour), or what its batches have changed the values by, negated (averaging). In
// the last two the values in memory take a local step after each batch; averaging puts them back to what they
// were before the run once it has ended. A batch that is rejected ends its run, and a run may be given up
// between two of its batches: the next Compute is then the first of another.
struct Compute {
  uint64_t token = 0;
  uint64_t lease = 0;
  uint32_t batch = 0;
  bool first = true;     // of its run: nothing of an earlier run is to be in what is pushed
  bool last = true;      // of its run: what is pushed has to be ready after it
  uint64_t version = 0;  // of the values that the run started from; the lowest, where slices differ
};
// Send to one server. The payload of a kGradient is that of the run computed last (the shell knows it), which
// stays untouched until all servers have answered; values that come back go to the parameters. Answer:
// OnPushReply or OnPushFailed. The request is never changed any more: whoever sends it may hold on to it, in
// the machine's thread.
struct SendPush {
  NodeId server;
  std::string address;
  std::shared_ptr<const PushRequest> request;
};
// Forget the connection and whatever of it is under way: no answer is wanted.
struct Disconnect {
  NodeId server;
};
using WorkerAction = std::variant<PrepareSplit, DropSplit, Compute, SendPush, Disconnect, StopRole>;
using WorkerActions = std::vector<WorkerAction>;

class Worker {
 public:
  explicit Worker(WorkerConfig config);
  ~Worker();

  void OnJoined(NodeId node);
  // ---- control plane. `progress` is the shell's to fill in.
  WorkerHeartbeat MakeHeartbeat();
  // True when a heartbeat should not wait for its interval: the worker is short of leases, or has ended some.
  bool HeartbeatUrgent() const;
  WorkerActions OnHeartbeatReply(Time now, const WorkerHeartbeatReply& reply);
  // Ends after the batch under way, and what of it is being pushed; open leases are released.
  WorkerActions Leave(Time now);

  // ---- input
  WorkerActions OnSplitReady(Time now, uint64_t lease);
  // The split could not be read: the lease is given back. The shell decides when to give up altogether.
  WorkerActions OnSplitFailed(Time now, uint64_t lease);
  // ---- compute
  WorkerActions OnComputed(Time now, uint64_t token, const BatchOutcome& outcome);
  // ---- data plane
  WorkerActions OnPushReply(Time now, NodeId server, const PushReply& reply);
  WorkerActions OnPushFailed(Time now, NodeId server, uint64_t sequence, const Status& why);
  WorkerActions OnTimer(Time now);
  // When OnTimer is wanted next; Time::max() for never.
  Time next_timer() const;

  const View& view() const;
  // The lease while it is held; null otherwise.
  const Lease* FindLease(uint64_t lease) const;
  bool idle() const;  // nothing leased

 private:
  friend struct PrefetchHints;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace leat::protocol
