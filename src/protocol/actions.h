// Actions that several state machines request from their shell, and the shell's answers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

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

}  // namespace leat::protocol
