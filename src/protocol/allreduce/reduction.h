// A member's part in an all-reduce, without memory and sockets: what to send when, and how to combine what
// arrives. The caller (a shell with a transport, or a simulator) reports what happened and executes the
// resulting actions in order.
//
// Members have ranks 0 … members - 1 and describe the all-reduce identically. The paths:
// - ring: bandwidth-optimal (Patarasuk and Yuan 2009). The bucket is divided into one block per member. Phase
//   0: block b travels from rank b around the ring, each rank adding its own, until rank b - 1 has the sum.
//   Phase 1: the sums travel around the ring once more. Blocks travel in pieces, so that one piece is added
//   while the next is in transit.
// - exchange: few messages. The ranks below the largest power of two up to `members` exchange all they have
//   with the rank that differs in bit 0, then bit 1, and so on. Each further rank sends its contribution to
//   rank - power first (phase 0), and receives the result from it at the end.
// - chain: a fixed order. Phase 0: partial sums travel from rank 0 upwards, each rank adding its own. Phase
//   1: the result travels back from the last rank downwards.
// - one shot: every member gets all contributions and adds them itself in the order of ranks. With shared
//   memory nothing is moved and each member waits only once. For few members.
// On every path an element is computed with the same operands in the same order everywhere, so all members
// get the same bits. On the chain these are the bits of adding the ranks one after the other.
//
// Each peer sends at most `eager_bytes` to a member that has not started, and the rest after its ready
// message. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/fields/fields.h"

namespace leat::protocol {

enum class ReducePath : uint8_t { kRing = 0, kExchange = 1, kChain = 2, kOneShot = 3 };
LEAT_ENUM(ReducePath, (kRing, "ring"), (kExchange, "exchange"), (kChain, "chain"), (kOneShot, "one_shot"));
// The maximum number of members for one shot: each reads members - 1 times the size.
inline constexpr uint32_t kMaxOneShotMembers = 4;

struct ReduceShape {
  ReducePath path = ReducePath::kRing;
  uint32_t members = 1;
  uint64_t bytes = 0;
  uint64_t piece_bytes = 256 << 10;  // maximum size of a message of a ring or chain
  uint64_t eager_bytes = 1 << 20;
  static constexpr uint64_t kUnit = 64;  // pieces begin at multiples of it, so that no element is divided
};

// A message: one piece in one phase. `peer` is its sender or receiver.
struct Hop {
  uint32_t peer = 0;
  uint32_t phase = 0;
  uint32_t piece = 0;
  friend bool operator==(const Hop&, const Hop&) = default;
};

struct PieceRange {
  uint64_t begin = 0;
  uint64_t bytes = 0;
};

struct ReduceAction {
  enum class Kind : uint8_t {
    kCombine,  // combine the piece received by `hop` with this member's own
    kOwn,      // the first contribution to the piece is this member's own
    kSend,     // send the piece in its current state; its memory must not change until Sent
    kReady,    // tell hop.peer that this member has started
    kFinished,
  };
  Kind kind = Kind::kFinished;
  Hop hop;
  bool incoming_first = true;  // kCombine: the received piece is the left operand
};

// The path of a bucket. `by_lanes`: contributions are added in lane order. `apart`: every member may combine
// them itself. Other buckets up to `exchange_bytes` use the exchange, larger ones the ring.
ReducePath PathOf(bool by_lanes, bool apart, uint64_t bytes, uint64_t exchange_bytes);
// ReduceShape::eager_bytes for one shot: receivers read in place, so early messages need no memory.
inline constexpr uint64_t kOneShotEagerBytes = 64 << 20;

// The ranks that this rank exchanges messages with, which are the connections it needs.
std::vector<uint32_t> ReducePeers(ReducePath path, uint32_t members, uint32_t rank);
// The union over all paths that a group of this size may take.
std::vector<uint32_t> ReducePeers(uint32_t members, uint32_t rank);

class Reduction {
 public:
  Reduction(const ReduceShape& shape, uint32_t rank);

  const ReduceShape& shape() const { return shape_; }
  uint32_t pieces() const { return pieces_; }
  PieceRange piece(uint32_t i) const;

  enum class Verdict {
    kWrong,     // unknown, or already received
    kBuffered,  // keep until kCombine asks for it; for one shot, to the end
    kInPlace,   // part of the result: receive it in place
  };
  Verdict Expects(const Hop& hop) const;

  // ---- events
  void Begin();
  void Arrived(const Hop& hop);  // a hop that Expects accepted
  void Sent(const Hop& hop);     // a kSend no longer uses the memory
  void PeerReady(uint32_t peer);

  // Takes the next action; false if there is none until the next event.
  bool Next(ReduceAction* action);
  // The peers with outstanding messages.
  std::vector<uint32_t> WaitsFor() const;

 private:
  struct Window {
    uint32_t peer = 0;
    bool ready = false;
    uint64_t left = 0;  // rest of eager_bytes
    std::deque<Hop> waiting;
  };

  template <class Visit>
  void ForEachExpected(const Visit& visit) const;
  uint32_t Distance(uint32_t piece) const;
  uint32_t Bit(const Hop& hop) const {
    return 1u << (shape_.path == ReducePath::kOneShot ? hop.peer : hop.phase);
  }
  Window& WindowOf(uint32_t peer);
  void StartSome();
  void Send(const Hop& hop);
  void Enter(uint32_t round);
  void AdvanceExchange();
  void CheckFinished();

  const ReduceShape shape_;
  const uint32_t rank_;
  uint32_t pieces_per_block_ = 0;
  uint64_t block_bytes_ = 0, piece_bytes_ = 0;
  uint32_t pieces_ = 0;
  uint32_t power_ = 1, rounds_ = 0;  // exchange: largest power of two up to the members, its logarithm

  std::vector<uint32_t> arrived_;  // by piece: a bit for each phase; for one shot, for each peer
  std::deque<uint32_t> starts_;    // pieces that start at this rank and are not in transit yet
  uint32_t starting_ = 0;          // pieces in transit without Sent
  uint64_t to_arrive_ = 0;
  uint64_t sending_ = 0;
  uint32_t round_ = 0;       // exchange: the current phase
  bool round_sent_ = false;  // its own message of this phase
  bool finished_ = false;
  std::deque<ReduceAction> actions_;
  std::vector<Window> windows_;
};

// ---- the gradients of a step in buckets: members reduce each while back-propagation still computes the next

// Variables [first, end) of the table.
struct VariableRange {
  size_t first = 0;
  size_t end = 0;
  friend bool operator==(const VariableRange&, const VariableRange&) = default;
};

// Buckets of whole variables in the order of their reduction: the last variables come first, because their
// gradients are ready first. A bucket takes variables until it has at least `bucket_bytes`; the last one
// takes the rest. Every variable is in exactly one bucket. Pure.
std::vector<VariableRange> PlanBuckets(std::span<const uint64_t> variable_bytes, uint64_t bucket_bytes);

// ---- connections

// Pieces of buckets use one channel, short messages the other, which is never full.
enum class ChannelKind : uint8_t { kData = 0, kControl = 1 };
LEAT_ENUM(ChannelKind, (kData, "data"), (kControl, "control"));

struct Greet {
  uint64_t group = 0;
  uint32_t members = 0;
  uint32_t rank = 0;  // rank of the sender
  ChannelKind kind = ChannelKind::kData;
};
LEAT_FIELDS(Greet, (group), (members, AtLeast(1)), (rank, AtMost(self.members - uint64_t{1})), (kind));

// How a process treats an incoming connection, by the group in its greeting.
enum class CallVerdict : uint8_t {
  kAccept,  // the group is the newest one known here
  kKeep,    // the group is not known here yet: the caller waits
  kReject,  // the group is an earlier one
};
CallVerdict JudgeCall(uint64_t said, uint64_t newest);

// The connections of one member to the others of its group, without sockets: which peers it calls, which
// greetings it accepts, when the group is complete, and what a closed connection means.
//
// Each pair of members that reduce together (ReducePeers) has one connection per channel. The member with the
// higher rank connects; the first message in both directions is a greeting. A group is complete when every
// peer has greeted on every channel, so a group of one is complete at once. It is unusable after the first
// failure. Not thread-safe.
class PeerConnections {
 public:
  enum class Phase : uint8_t {
    kForming,
    kFormed,
    kStopped,  // no more messages; the cause is not certain yet
    kEnded,
  };
  // The consequence of a closed connection.
  enum class Loss : uint8_t {
    kNone,         // none: the group has ended, or is about to
    kAwaitReason,  // the peer's control channel is open and may still deliver the reason
    kPeer,         // the peer is lost
  };

  // `channels`: 1 (kData alone) or 2.
  PeerConnections(uint64_t group, uint32_t members, uint32_t rank, uint32_t channels);

  Phase phase() const { return phase_; }
  bool formed() const { return phase_ == Phase::kFormed; }
  bool running() const { return phase_ == Phase::kForming || phase_ == Phase::kFormed; }
  uint64_t group() const { return group_; }
  uint32_t rank() const { return rank_; }
  std::vector<uint32_t> Peers() const;
  // The peers that this member connects to.
  std::vector<uint32_t> Calls() const;
  Greet MyGreet(ChannelKind kind) const { return {group_, members_, rank_, kind}; }

  // ---- forming
  // Handles a call that JudgeCall accepts. True: answer it with MyGreet; it counts as greeted.
  bool Accept(const Greet& greet);
  // True if this is the expected answer of a called peer.
  bool Answers(uint32_t peer, const Greet& greet) const;
  // Records the answer of a called peer.
  void Answered(uint32_t peer, ChannelKind kind) { MarkGreeted(Find(peer), kind); }
  bool greeted(uint32_t peer, ChannelKind kind) const;
  // The first peer that has not greeted on every channel.
  std::optional<uint32_t> Missing() const;

  // ---- the end
  Loss Closed(uint32_t peer, ChannelKind kind);
  // Returns false if it was stopped before.
  bool Stop();
  bool End();

 private:
  struct Peer {
    uint32_t rank = 0;
    bool there[2] = {};  // connected, and the connection has not closed
    bool greeted[2] = {};
  };

  const Peer* Find(uint32_t rank) const;
  Peer* Find(uint32_t rank);
  void MarkGreeted(Peer* peer, ChannelKind kind);
  bool Complete(const Peer& peer) const;

  uint64_t group_;
  uint32_t members_, rank_, channels_;
  Phase phase_ = Phase::kForming;
  std::vector<Peer> peers_;
};

}  // namespace leat::protocol
