// Orders of the coordinator about the slices of a server: those that it is to have, by whichever way they
// come, and replicas of slices of other servers.
//
// Invariants:
// - A slice is here only as long as each reply orders it; all outdated slices go before any new one comes, so
//   that a new history starts without remains of the old one.
// - A replica takes what its primary forwards, in the primary's order, and nothing else. One that has refused
//   something, or is ordered in an epoch that it cannot go on to, is reported as lost until the orders
//   change.
//
// Orders that cannot be carried out are reported in heartbeats. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "protocol/slices/server/server_moves.h"

namespace leat::protocol {

class SliceOrders {
 public:
  SliceOrders(HostedSlices& slices, ServerMoves& moves) : slices_(slices), moves_(moves) {}

  // Adds slices that a checkpoint has to `loads`. True if a replica has taken the place of its primary.
  bool Take(const ServerHeartbeatReply& reply, LoadSlices* loads);
  void OnView(const View& view);  // forgets primaries that are gone
  void OnEvicted();               // drops all
  // Lost replicas and the version.
  void Report(ServerHeartbeat* heartbeat);

  // ---- forwards of primaries
  // Fills in the reply. True if it is the next forward of its link, which is then to be taken.
  bool TakeNumber(const ForwardRequest& request, ForwardReply* reply);
  // The slice as a replica of that epoch, perhaps made just now; null if it is none.
  HostedSlice* ReplicaOf(const SliceRef& ref, uint64_t epoch);

 private:
  void TakeOrder(const SliceOrder& order, LoadSlices* loads);
  // Makes the slice live that has come by the move of the order. False if it has not.
  bool MakeArrived(HostedSlice* hosted);
  void TakeReplicas(const std::vector<ReplicaGroup>& groups);
  // True if the replica goes on in this epoch, under another primary or as the primary.
  bool GoesOn(const HostedSlice& hosted, const SliceIncarnation& which, uint64_t epoch) const;
  HostedSlice* MakeReplica(const SliceIncarnation& which, uint64_t epoch);

  HostedSlices& slices_;
  ServerMoves& moves_;
  std::map<NodeId, LinkNumber> link_of_;  // by primary: the last number that has been taken here
  std::vector<LostReplica> lost_;         // ordered, and not here
};

}  // namespace leat::protocol
