// Forwards of a primary: what its slices have taken goes to the servers of their replicas, in its own order.
// There it is taken in the same way, so both have the same ledger, values and open steps.
//
// Invariants:
// - Nothing that the replica may lack is said to anybody: a reply, a save and a decision wait until its
//   number is acknowledged, and it is the replica's server that reports the ledger. So the replica can take
//   the primary's place at any moment.
// - Only the coordinator ends the wait, by an order without the replica. A primary that decided by itself
//   could answer what a replica lacks that has taken its place meanwhile. Such a replica refuses what the
//   former primary forwards: its epoch is over.
// - Numbers of a link are 1, 2, … without gaps. After a failure the link is lost for good, and with it its
//   replicas; the next epoch has a new link.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "protocol/actions.h"
#include "protocol/slices/server/hosted_slices.h"

namespace leat::protocol {

// A slice of a push that has taken it.
struct TakenSlice {
  size_t index = 0;      // in the push
  bool changed = false;  // its version
};

class ReplicaForwards {
 public:
  explicit ReplicaForwards(HostedSlices& slices) : slices_(slices) {}

  void OnJoined(NodeId node) { node_ = node; }
  bool any() const { return !links_.empty(); }
  // Orders: these slices have a replica, all others have none.
  void TakeReplicated(const std::vector<ReplicaGroup>& groups);
  void DropUnusedLinks();

  // ---- forwards
  void ForwardTaken(const PushRequest& request, std::span<const SliceRef> slices,
                    std::span<const TakenSlice> taken, std::span<const std::span<const float>> gradients,
                    const Buffer& memory);
  // The lanes that the server of slice 0 has chosen, for its replica. None: its link is lost.
  std::optional<LinkNumber> ForwardChosen(const DecidedStep& chosen);
  // Decided steps, and the slices that have completed steps by them.
  void ForwardDecided(const std::vector<SliceId>& changed, const std::vector<DecidedStep>& decided);
  std::vector<ForwardAction> TakeActions() { return std::exchange(actions_, {}); }
  // False if the reply changes nothing, or has broken the link.
  bool OnForwarded(NodeId server, const ForwardReply& reply);
  void OnFailed(NodeId server, uint64_t link) {
    const auto at = links_.find(server);
    if (at != links_.end() && at->second.id == link) LoseLink(server);
  }

  // ---- acknowledgements
  bool Acknowledged(const RemoteReplica& replica, uint64_t number) const;
  // The replicas have all that their primaries have. False if a slice is not here.
  bool Acknowledged(const std::vector<SliceIncarnation>& slices) const;
  // The replica of a kept slice has reached it.
  bool KeptAcknowledged(const HostedSlice& hosted) const {
    return hosted.replica.link != hosted.kept_at.link || Acknowledged(hosted.replica, hosted.kept_at.number);
  }
  // The replica may lack what the reply says of its slice.
  bool Unconfirmed(const SliceReply& reply, const std::vector<LinkNumber>& numbers) const;
  // The numbers that the replicas of the slices have to acknowledge before a push is answered.
  std::vector<LinkNumber> NumbersOf(const std::vector<SliceReply>& slices) const;
  // The number of the slice's version. `next`: it reaches the version by what is forwarded next.
  LinkNumber NumberOf(const HostedSlice& hosted, bool next) const;

 private:
  // A connection to a server with replicas of slices of this one.
  struct Link {
    uint64_t id = 0;
    std::string address;
    uint64_t sent = 0, acknowledged = 0;  // numbers
    bool lost = false;
  };

  Link& LinkTo(const ReplicaGroup& group);
  void LoseLink(NodeId server);
  // Sends the link's next forward.
  void Send(NodeId server, Link* link, const std::shared_ptr<ForwardRequest>& forward,
            std::vector<std::span<const float>> gradients = {}, Buffer memory = {});

  HostedSlices& slices_;
  NodeId node_;
  std::map<NodeId, Link> links_;        // by server with replicas
  std::vector<ForwardAction> actions_;  // in order
};

}  // namespace leat::protocol
