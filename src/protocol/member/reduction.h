// One member's part in one all-reduce, without bytes and sockets: what it sends to whom and when, and what it
// does with what arrives. Whoever moves the bytes (a shell over a transport, a simulator) tells it what
// happened and carries out the actions that follow, in their order.
//
// Members are ranks 0 … members - 1, and all of them describe the same all-reduce alike. Three paths:
// - ring: bandwidth-optimal (Patarasuk and Yuan 2009). The bucket is cut into as many blocks as there are
//   members. Phase 0: block b goes from rank b around the ring, each rank adding its own, until rank b - 1
//   has all of it. Phase 1: from there the result goes around once more. Blocks travel in pieces, so that one
//   piece is added while the next is on its way.
// - exchange: few messages. Ranks of the largest power of two below `members` exchange all they have with the
//   rank that differs in bit 0, then bit 1, …; what the other ranks have is added by rank - power before
//   (phase 0) and goes back to them in the end.
// - chain: one order for everybody. Phase 0: partial results go from rank 0 upwards, each rank adding its
//   own; phase 1: the result goes back from the last rank downwards.
// - one shot: everybody gets all that everybody has, and adds it up by himself, in the order of ranks. Where
//   it can be looked at where it is, nothing is moved and each waits only once; for few members.
// On every path the result of an element is computed with the same operands in the same order wherever it is
// computed, so all members end with the same bits; on the chain these are also the bits of adding one rank's
// after the other.
//
// A member that starts late is sent no more than `eager_bytes` by each peer; the rest waits for its word that
// it is ready. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

namespace leat::protocol {

enum class ReducePath : uint8_t { kRing = 0, kExchange = 1, kChain = 2, kOneShot = 3 };
// Members of a one-shot all-reduce: each reads members - 1 times its size.
inline constexpr uint32_t kMaxOneShotMembers = 4;

struct ReduceShape {
  ReducePath path = ReducePath::kRing;
  uint32_t members = 1;
  uint64_t bytes = 0;
  uint64_t piece_bytes = 256 << 10;  // at most so many in one message of a ring or chain
  uint64_t eager_bytes = 1 << 20;
  static constexpr uint64_t kUnit = 64;  // pieces begin at multiples of it: no element is cut
};

// A message: one piece in one phase. `peer` is who it comes from or goes to.
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
    kCombine,  // what came by `hop` and what this member has of that piece
    kOwn,      // nothing comes before this member's own: its own is all there is of that piece so far
    kSend,     // that piece as it is now; memory stays as it is until Sent
    kReady,    // tell hop.peer that this member has started
    kFinished,
  };
  Kind kind = Kind::kFinished;
  Hop hop;
  bool incoming_first = true;  // kCombine: the left operand is what came
};

// The path of a bucket. `by_lanes`: contributions are added in the order of lanes; `apart`: every member may
// add them up by itself. Other buckets up to `exchange_bytes` are exchanged, larger ones go around the ring.
ReducePath PathOf(bool by_lanes, bool apart, uint64_t bytes, uint64_t exchange_bytes);
// In place of ReduceShape::eager_bytes where the path is one shot: receivers read what is sent where it lies,
// so an early message costs them nothing.
inline constexpr uint64_t kOneShotEagerBytes = 64 << 20;

// Whose messages it takes, and who takes its own: the connections that a path needs.
std::vector<uint32_t> ReducePeers(ReducePath path, uint32_t members, uint32_t rank);
// The same of all paths that a group of so many may take.
std::vector<uint32_t> ReducePeers(uint32_t members, uint32_t rank);

class Reduction {
 public:
  Reduction(const ReduceShape& shape, uint32_t rank);

  const ReduceShape& shape() const { return shape_; }
  uint32_t pieces() const { return pieces_; }
  PieceRange piece(uint32_t i) const;

  enum class Verdict {
    kWrong,     // no such message, or it has come already
    kBuffered,  // to be kept until kCombine asks for it; of one shot, to the end
    kInPlace,   // the result: where the piece belongs
  };
  Verdict Expects(const Hop& hop) const;

  // ---- what happened
  void Begin();
  void Arrived(const Hop& hop);  // that Expects knew
  void Sent(const Hop& hop);     // a kSend is done with the memory
  void PeerReady(uint32_t peer);

  // Takes the next action; false when there is none until something happens.
  bool Next(ReduceAction* action);
  // The peers that something is still to come from.
  std::vector<uint32_t> WaitsFor() const;

 private:
  struct Window {
    uint32_t peer = 0;
    bool ready = false;
    uint64_t left = 0;  // of eager_bytes
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
  uint32_t power_ = 1, rounds_ = 0;  // of the exchange

  std::vector<uint32_t> arrived_;  // of each piece: a bit for each phase; of one shot, for each peer
  std::deque<uint32_t> starts_;    // pieces whose way begins here, and that are not under way
  uint32_t starting_ = 0;          // of those that are, not Sent yet
  uint64_t to_arrive_ = 0;
  uint64_t sending_ = 0;
  uint32_t round_ = 0;       // of the exchange: the phase that is under way
  bool round_sent_ = false;  // its own message is
  bool finished_ = false;
  std::deque<ReduceAction> actions_;
  std::vector<Window> windows_;
};

}  // namespace leat::protocol
