// The connections of one member to the others of its group, without sockets: which peers it calls, which
// greetings it accepts, when the group is complete, and what a closed connection means.
//
// Each pair of members that reduce together (ReducePeers) has one connection per channel. The member with the
// higher rank connects; the first message in both directions is a greeting. A group is complete when every
// peer has greeted on every channel, so a group of one is complete at once. It is unusable after the first
// failure. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/fields/fields.h"

namespace leat::protocol {

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
  void Answered(uint32_t peer, ChannelKind kind);
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
