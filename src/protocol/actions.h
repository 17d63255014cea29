// Actions that several state machines request from their shell, and the shell's answers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "protocol/messages_control.h"
#include "protocol/messages_data.h"
#include "protocol/slice.h"

namespace leat::protocol {

// ---- actions
struct LoadSlices {  // read from checkpoints; answer each with OnSliceLoaded
  std::vector<SliceOrder> orders;
};
// Save all slices as they are now. In stepped strategies, each slice as it was at the order's version; the
// order is repeated until all slices have reached it. Answer with OnShardSaved once the slices have been
// read.
struct SaveShard {
  CheckpointOrder order;
  std::vector<std::shared_ptr<const Slice>> slices;
};
// A move from this server: connect to the other one. Answer: OnMoveConnected or OnMoveFailed.
struct ConnectMove {
  uint64_t id = 0;
  NodeId to;
  std::string address;
};
// Send the slices, whose memory does not change while the move lasts. Answer: OnMoveTaken once the other
// server holds them, or OnMoveFailed.
struct SendMove {
  uint64_t id = 0;
  std::vector<MovedSlice> slices;
};
// The move is over: what is still being sent is useless.
struct DropMove {
  uint64_t id = 0;
};
// A move to this server: tell the sender that the slices are held here, or why they are not.
struct AnswerMove {
  uint64_t id = 0;
  Status status;
};
using MoveAction = std::variant<ConnectMove, SendMove, DropMove, AnswerMove>;

// Send what primaries have taken to the server of their replicas, in the order of these actions. Answer:
// OnForwarded with its reply, or OnForwardFailed if there is none in time, or the connection ends. Nothing
// more is sent on that link then.
struct Forward {
  NodeId to;
  std::string address;
  std::shared_ptr<const ForwardRequest> request;
  std::vector<std::span<const float>> gradients;  // gradients of the push's slices, if it has any
  Buffer memory;                                  // memory of the gradients
};
// The link is not used any more.
struct DropLink {
  NodeId to;
};
using ForwardAction = std::variant<Forward, DropLink>;

struct StopRole {  // the job has ended, or (evicted) this node is no longer a member
  bool evicted = false;
};

// Read, decode and order the events of a split, so that its batches can be computed. Answer: OnSplitReady.
// Splits are prepared in the order of these actions; DropSplit cancels one.
struct PrepareSplit {
  Lease lease;
};
struct DropSplit {
  uint64_t lease = 0;
};

// Send to one server. The payload of a kGradient is that of the last computed run, which the shell knows; it
// must not change until all servers have answered. Returned values go to the parameters. Answer: OnPushReply
// or OnPushFailed. The request is immutable and may be kept on the machine's thread.
struct SendPush {
  NodeId server;
  std::string address;
  std::shared_ptr<const PushRequest> request;
};
// Close the connection and drop its pending request, without an answer.
struct Disconnect {
  NodeId server;
};

struct BatchOutcome {
  Disposition disposition = Disposition::kGradient;  // kGradient, kEmpty or kRejected
  uint32_t events = 0;                               // its number of good records
};

// Score and train one batch of a prepared split on the current values. Always answered by OnComputed, even if
// the split has been dropped, before the next computation. The batches of a run come in sequence. At the end
// of a run the worker pushes, by strategy, the gradient of its one batch, the sum of its batches' gradients
// (downpour), or the negated change of the values (averaging). In the last two, the values take a local step
// after each batch; averaging restores them after the run. A rejected batch ends its run. A run may also be
// given up between two batches: the next Compute is then the first of another.
struct Compute {
  uint64_t token = 0;
  uint64_t lease = 0;
  uint32_t batch = 0;
  bool first = true;     // first batch of its run: discard what an earlier run has left to push
  bool last = true;      // last batch of its run: afterwards the data to push must be ready
  uint64_t version = 0;  // version of the values that the run started from; the lowest if slices differ
  float rate = 1;        // factor on the learning rate of local steps
};
using WorkerAction = std::variant<PrepareSplit, DropSplit, Compute, SendPush, Disconnect, StopRole>;
using WorkerActions = std::vector<WorkerAction>;

// Wishes of a worker's parts, which the worker carries out.
struct WorkerOutbox {
  WorkerActions actions;          // for the shell, in this order
  bool view_wanted = false;       // a server has contradicted the view: a newer one is needed
  std::optional<Time> resume_at;  // nothing new starts before this time
  void PauseUntil(Time at) { resume_at = std::max(resume_at.value_or(at), at); }
};

}  // namespace leat::protocol
