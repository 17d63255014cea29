// Replies to pushes and pulls. A reply waits, parked under its ticket, while the version that it wants is
// missing, a slice may still take the run after a move, or a replica is not known to have what would be said.
//
// Invariants: a reply says what is true when it is made, not when its push was applied; nothing that the
// replica of a slice may lack is said of it; a ticket is answered at most once. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "protocol/push/server_steps.h"

namespace leat::protocol {

class PushReplies {
 public:
  struct Ready {
    uint64_t ticket = 0;
    PushReply reply;
  };
  struct HeldValues {
    Buffer memory;
    std::span<const float> values;
  };

  PushReplies(ServerView& view, HostedSlices& slices, const ReplicaForwards& forwards,
              const ServerMoves& moves, ServerSteps& steps)
      : view_(view), slices_(slices), forwards_(forwards), moves_(moves), steps_(steps) {}

  // The reply to an applied request; none: it is parked.
  std::optional<PushReply> Reply(uint64_t ticket, const PushRequest& request, std::vector<SliceReply> slices);
  std::vector<Ready> TakeReady();
  void Expire(uint64_t ticket);  // ends the wait
  void Forget(uint64_t ticket);
  // The values of a slice on this server, at the version in its finished reply.
  HeldValues Values(SliceId slice, uint64_t version) const;

 private:
  struct Parked {
    uint64_t ticket = 0;
    bool expired = false;
    PushHeader request;
    std::vector<SliceReply> slices;
    std::vector<LinkNumber> numbers;  // numbers that replicas have to acknowledge
  };

  bool Waits(const Parked& request);
  bool Unready(const Parked& request);
  PushReply Answer(Parked request);

  ServerView& view_;
  HostedSlices& slices_;
  const ReplicaForwards& forwards_;
  const ServerMoves& moves_;
  ServerSteps& steps_;
  std::vector<Parked> parked_;
};

}  // namespace leat::protocol
