// One member's connections to the other members of its group, without sockets: whom it calls, which greetings
// it accepts, when the group is complete, and what the end of a connection means.
//
// Each pair of members that reduce together (ReducePeers) has one connection for each channel. The member
// with the higher rank calls; the first message in both directions is a greeting. A group is complete when
// every peer has greeted on every channel, so a group of one is complete at once. After the first failure it
// is of no more use. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace leat::protocol {

// Pieces of buckets travel on one channel and short messages on the other, which is never full.
enum class ChannelKind : uint8_t { kData = 0, kControl = 1 };

struct Greet {
  uint64_t group = 0;
  uint32_t members = 0;
  uint32_t rank = 0;  // of who says it
  ChannelKind kind = ChannelKind::kData;
  friend bool operator==(const Greet&, const Greet&) = default;
};

// What a process does with a call, by the group that its greeting names.
enum class CallVerdict : uint8_t {
  kAccept,  // of the newest group that this process has heard of
  kKeep,    // of a group that it has not heard of yet: the caller waits
  kReject,  // of an earlier group
};
CallVerdict JudgeCall(uint64_t said, uint64_t newest);

class PeerConnections {
 public:
  enum class Phase : uint8_t {
    kForming,
    kFormed,
    kStopped,  // nothing is sent or taken any more; the reason is not certain yet
    kEnded,
  };
  // What follows from the end of a connection.
  enum class Loss : uint8_t {
    kNone,         // nothing new: the group is over, or about to be
    kAwaitReason,  // the peer's control channel is still there, and may say why
    kPeer,         // the peer is gone
  };

  // `channels`: 1 (kData alone) or 2.
  PeerConnections(uint64_t group, uint32_t members, uint32_t rank, uint32_t channels);

  Phase phase() const { return phase_; }
  bool formed() const { return phase_ == Phase::kFormed; }
  bool running() const { return phase_ == Phase::kForming || phase_ == Phase::kFormed; }
  uint64_t group() const { return group_; }
  uint32_t rank() const { return rank_; }
  std::vector<uint32_t> Peers() const;
  // Those that this member calls.
  std::vector<uint32_t> Calls() const;
  Greet MyGreet(ChannelKind kind) const { return {group_, members_, rank_, kind}; }

  // ---- forming
  // A call that JudgeCall accepts. True: it is answered with MyGreet, and counts as greeted.
  bool Accept(const Greet& greet);
  // Whether this is the answer of the peer that was called.
  bool Answers(uint32_t peer, const Greet& greet) const;
  // The answer of the peer that was called has come.
  void Answered(uint32_t peer, ChannelKind kind);
  bool greeted(uint32_t peer, ChannelKind kind) const;
  // The first peer that has not greeted on every channel.
  std::optional<uint32_t> Missing() const;

  // ---- the end
  Loss Closed(uint32_t peer, ChannelKind kind);
  // False when it was stopped before.
  bool Stop();
  bool End();

 private:
  struct Peer {
    uint32_t rank = 0;
    bool there[2] = {};  // it was called or has called, and the connection has not ended
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
