// What members of a group say to each other: headers of frames on the tensor plane. Decoders believe nothing
// and return kDataLoss for what is no such header. Pure and thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "protocol/member/reduction.h"
#include "protocol/peer_connections.h"

namespace leat::collective {

// Types of frames; those of the parameter servers (wire::FrameType) are below 64.
enum class MessageType : uint8_t {
  kGreet = 64,  // the first one on each connection, both ways
  kPiece = 65,
  kReady = 66,
  kProbe = 67,  // are you there? a kReady's header: the bucket that is waited for
  kAlive = 68,
  kAbort = 69,
};

// Each pair of peers has two connections, so that a word gets through while the other is full of pieces.
using protocol::ChannelKind;
using protocol::Greet;

// A piece of a bucket.
struct PieceHeader {
  uint64_t bucket = 0;  // counted from 0 in the group's life
  uint64_t bytes = 0;   // of the whole bucket
  protocol::ReducePath path = protocol::ReducePath::kRing;
  uint8_t reduce = 0;
  uint32_t phase = 0;
  uint32_t piece = 0;
  friend bool operator==(const PieceHeader&, const PieceHeader&) = default;
};

struct Alive {
  static constexpr uint32_t kNobody = ~uint32_t{0};
  uint64_t bucket = 0;           // that was asked for
  bool started = false;          // that bucket, here
  uint32_t waits_for = kNobody;  // who this one waits for itself
  friend bool operator==(const Alive&, const Alive&) = default;
};

struct AbortMessage {
  static constexpr uint32_t kNobody = ~uint32_t{0};
  Code code = Code::kAborted;
  uint32_t lost = kNobody;
  std::string message;
  friend bool operator==(const AbortMessage&, const AbortMessage&) = default;
};

Bytes Encode(const Greet& message);
Bytes Encode(const PieceHeader& message);
Bytes EncodeBucket(uint64_t bucket);  // kReady, kProbe
Bytes Encode(const Alive& message);
Bytes Encode(const AbortMessage& message);

Result<Greet> DecodeGreet(ByteView header);
Result<PieceHeader> DecodePiece(ByteView header);
Result<uint64_t> DecodeBucket(ByteView header);
Result<Alive> DecodeAlive(ByteView header);
Result<AbortMessage> DecodeAbort(ByteView header);

}  // namespace leat::collective
