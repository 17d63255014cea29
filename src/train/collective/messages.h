// Messages between members of a group: frame headers on the tensor plane. Pure and thread-safe.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/fields/fields.h"
#include "base/status.h"
#include "net/frames/handshake.h"
#include "protocol/allreduce/reduction.h"

namespace leat::collective {

// Frame types from 64 on; lower ones are the parameter servers' (wire::FrameType).
enum class MessageType : uint8_t {
  kGreet = 64,  // the first on each connection, both ways
  kPiece = 65,
  kReady = 66,
  kProbe = 67,  // asks whether the peer is alive
  kAlive = 68,
  kAbort = 69,
};

// Two connections per pair of peers, so that control messages get through while the other is full of pieces.
using protocol::ChannelKind;
using protocol::Greet;

// A piece of a bucket.
struct PieceHeader {
  uint64_t bucket = 0;  // counted from 0 within the group
  uint64_t bytes = 0;   // size of the whole bucket
  protocol::ReducePath path = protocol::ReducePath::kRing;
  uint8_t reduce = 0;
  uint32_t phase = 0;
  uint32_t piece = 0;
  friend bool operator==(const PieceHeader&, const PieceHeader&) = default;
};
LEAT_FIELDS(PieceHeader, (bucket, Fixed), (bytes, Fixed), (path), (reduce), (phase, Fixed), (piece, Fixed));

// kReady; kProbe: the bucket waited for.
struct BucketHeader {
  uint64_t bucket = 0;
};
LEAT_FIELDS(BucketHeader, (bucket));

struct Alive {
  static constexpr uint32_t kNobody = ~uint32_t{0};
  uint64_t bucket = 0;           // the bucket asked for
  bool started = false;          // this member has started that bucket
  uint32_t waits_for = kNobody;  // the rank that this member waits for
};
LEAT_FIELDS(Alive, (bucket), (started), (waits_for));

struct AbortMessage {
  static constexpr uint32_t kNobody = ~uint32_t{0};
  Status why = Status(Code::kAborted, "");  // an error
  uint32_t lost = kNobody;
};
LEAT_FIELDS(AbortMessage, (why, CutTo(4096)), (lost));
Status Check(const AbortMessage& message);

// The port of a member of a group.
wire::Port MemberPort();

}  // namespace leat::collective
