// What a worker has of a group where there are no servers: its copy of the model, its connections to the
// others, and the all-reduces that are under way on them. group_members.cc and reduce.cc carry it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "protocol/member/group_member.h"
#include "protocol/member/reduction.h"
#include "protocol/peer_connections.h"

namespace leat::sim {

// What one member sends another. Data is one hop of one bucket's reduction; its floats travel along where
// there are any.
struct Piece {
  enum class Kind : uint8_t {
    kCall = 0,    // to whoever lives at the address
    kAnswer = 1,  // of the member that was called
    kReady = 2,   // the sender has started this bucket
    kData = 3,
  } kind = Kind::kData;
  uint32_t from = 0, to = 0;  // slots
  uint32_t from_incarnation = 0, to_incarnation = 0;
  uint64_t connection = 0;
  uint64_t group = 0;     // the sender's when it was sent, for Invariant::kOneGroup alone
  protocol::Greet greet;  // kCall and kAnswer
  uint64_t bucket = 0;    // of the group's buckets: all members start the same ones in the same order
  uint64_t bucket_bytes = 0;
  uint32_t phase = 0, piece = 0;
  uint64_t payload_bytes = 0;
  uint64_t bytes = 0;  // with all that is around the payload
  Time last_byte{0};   // at the receiver's link, were that free
  std::shared_ptr<const std::vector<float>> payload;
};

// One member's part in the reduction of one bucket.
struct BucketRun {
  enum class Kind : uint8_t {
    kSums = 0,   // elements [begin, end) of the step's gradients
    kLanes = 1,  // what has become of each lane
    kState = 2,  // the holder's state, for all
  } kind = Kind::kSums;
  uint64_t begin = 0, end = 0;
  protocol::Reduction reduction;
  struct BufferedPiece {
    protocol::Hop hop;
    std::shared_ptr<const std::vector<float>> payload;
  };
  std::vector<BufferedPiece> buffered = {};  // come, and not asked for yet
};

struct Membership {
  // A connection: what is sent on it arrives in its order.
  struct Peer {
    uint32_t rank = 0;
    uint64_t connection = 0;  // 0: neither called nor has called
    uint32_t slot = 0;
    uint32_t incarnation = 0;  // 0: not known before it answers
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
  std::optional<Status> broken;  // why: nothing is sent or taken any more
  std::optional<protocol::BroadcastState> sharing;
  std::optional<protocol::ReduceStep> reducing;
  uint64_t next_bucket = 0;
  std::map<uint64_t, BucketRun> runs;
  std::vector<uint32_t> early;  // pieces of buckets that are not started here yet
  size_t step_buckets = 0;      // of the gradients of the step under way: started
  Time deadline = Time::max();  // of what is under way
  // One shot: what each member has of the step, by rank.
  std::vector<std::shared_ptr<const std::vector<float>>> contributions;
};

// The part of a worker's process that other strategies have no use for.
struct GroupMemberParts {
  std::unique_ptr<protocol::Parameters> parameters;  // null: modelled
  std::unique_ptr<protocol::GroupMember> machine;
  std::map<uint64_t, protocol::Lease> leases;
  uint64_t computing = 0;  // the token of the batch that is, or was computed last
  Time reducing_since{0};
  // The step's gradients, of the whole table, weighted by events: of all lanes that this member has computed,
  // and (deterministic) of each by itself.
  std::vector<float> sums;
  bool any = false;  // sums are of something
  std::vector<std::vector<float>> lanes;
  size_t lanes_used = 0;
  uint32_t lane = 0;  // of the last
  Membership in;
  uint64_t newest_group = 0;      // that it has heard of
  std::vector<uint32_t> callers;  // calls of groups that it has not heard of yet
  bool watched = false;
};

// What the members of one group have told each other that is not summed: each writes what it has when it
// starts a bucket, and reads when that is over, which is when all have.
struct Blackboard {
  uint32_t there = 0;                                            // members that have not left
  std::map<uint64_t, std::vector<protocol::LaneOutcome>> lanes;  // by step; kHeld: nobody's
  std::shared_ptr<const protocol::GroupMember::Snapshot> state;  // the holder's
  // For Invariant::kMembersAgree.
  struct Held {
    protocol::TrainingState::Header header;
    std::vector<float> memory;
  };
  std::map<uint64_t, Held> held;  // by step: what the first member that was there held
  std::vector<uint64_t> reached;  // by rank: the step that it has completed last; 0: none yet
};

}  // namespace leat::sim
