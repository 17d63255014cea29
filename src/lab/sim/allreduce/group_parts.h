// A worker's part in an all-reduce group: its copy of the model, its connections to other members, and the
// all-reduces in progress.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "lab/sim/hosts/link_queue.h"
#include "protocol/allreduce/group_member.h"
#include "protocol/allreduce/reduction.h"

namespace leat::sim {

// A message between members. kData is one hop of one bucket's reduction, with its floats unless modelled.
struct Piece {
  enum class Kind : uint8_t {
    kCall = 0,    // to the process at the address
    kAnswer = 1,  // from the called member
    kReady = 2,   // the sender has started this bucket
    kData = 3,
  } kind = Kind::kData;
  uint32_t from = 0, to = 0;  // slots
  uint32_t from_incarnation = 0, to_incarnation = 0;
  uint64_t connection = 0;
  uint64_t group = 0;     // the sender's when it was sent, for Invariant::kAllReduceOneGroup only
  protocol::Greet greet;  // kCall and kAnswer
  uint64_t bucket = 0;    // index in the group: all members start the same buckets in the same order
  uint64_t bucket_bytes = 0;
  uint32_t phase = 0, piece = 0;
  uint64_t payload_bytes = 0;
  uint64_t bytes = 0;  // with headers
  Time last_byte{0};   // at the receiver's link, if that were free
  Route route = Route::kLink;
  std::shared_ptr<const std::vector<float>> payload;
};

// A member's part in the reduction of a bucket.
struct BucketRun {
  enum class Kind : uint8_t {
    kSums = 0,   // elements [begin, end) of the step's gradients
    kLanes = 1,  // the outcome of each lane
    kState = 2,  // the holder's state, for all
  } kind = Kind::kSums;
  uint64_t begin = 0, end = 0;
  protocol::Reduction reduction;
  struct BufferedPiece {
    protocol::Hop hop;
    std::shared_ptr<const std::vector<float>> payload;
  };
  std::vector<BufferedPiece> buffered = {};  // arrived early
};

struct Membership {
  // A connection. Its messages arrive in order.
  struct Peer {
    uint32_t rank = 0;
    uint64_t connection = 0;  // 0: not connected
    uint32_t slot = 0;
    uint32_t incarnation = 0;  // 0: unknown until it answers
    Time there{0};
  };
  Peer* Find(uint32_t rank_of_peer) {
    const auto at = std::ranges::find(peers, rank_of_peer, &Peer::rank);
    return at == peers.end() ? nullptr : &*at;
  }
  Peer* On(uint64_t connection) {
    const auto at = std::ranges::find(peers, connection, &Peer::connection);
    return at == peers.end() ? nullptr : &*at;
  }

  uint64_t group = 0;  // 0: in none
  std::optional<protocol::PeerConnections> connections;
  uint32_t rank = 0;
  std::vector<protocol::Member> members;
  std::vector<Peer> peers;
  bool connected = false;
  std::optional<Status> broken;  // why: no more messages
  std::optional<protocol::BroadcastState> sharing;
  std::optional<protocol::ReduceStep> reducing;
  uint64_t next_bucket = 0;
  std::map<uint64_t, BucketRun> runs;
  std::vector<uint32_t> early;  // pieces of buckets not started here yet
  size_t step_buckets = 0;      // gradient buckets of the current step: started
  Time deadline = Time::max();  // end of the pending operation
  // Contributions of all members to a one-shot step, by rank.
  std::vector<std::shared_ptr<const std::vector<float>>> contributions;
};

// The part of a worker's process that only all-reduce needs.
struct GroupMemberParts {
  std::unique_ptr<protocol::Parameters> parameters;  // null: modelled
  std::unique_ptr<protocol::GroupMember> machine;
  std::map<uint64_t, protocol::Lease> leases;
  uint64_t computing = 0;  // token of the current or last computed batch
  Time reducing_since{0};
  // The step's gradients over the whole table, weighted by events: the sum over this member's lanes, and
  // (deterministic) those of each lane.
  std::vector<float> sums;
  bool any = false;  // sums contain something
  std::vector<std::vector<float>> lanes;
  size_t lanes_used = 0;
  uint32_t lane = 0;                               // the last one computed
  std::map<uint32_t, std::vector<float>> moments;  // by lane computed for this step; not in the sums
  Membership in;
  uint64_t newest_group = 0;      // known here
  std::vector<uint32_t> callers;  // calls for groups not known here yet
  bool watched = false;
};

}  // namespace leat::sim
