// Orders of the coordinator about the slices of a server: which it is to have, and which move to other
// servers. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/actions.h"
#include "protocol/slices/server/replica_forwards.h"

namespace leat::protocol {

// Slices that move between servers, at both of them.
//
// A slice moves whole, with its ledger and the slots of its optimizer, between two steps if there are steps.
// Every update changes all of it, so a copy made while it goes on would have to be sent again: it is frozen
// while it is sent, and only the coordinator ends that.
//
// Invariants:
// - Nobody applies a run to a slice between its freeze and the end of its move. So at any time one server at
//   most applies runs to an incarnation of a slice, and the incarnation's ledger only grows, on whichever
//   server it is.
// - The slices of a move freeze before any lane of the same step has come to one of them: a worker whose push
//   a frozen slice refuses does not go on, and the other slices would wait for its next one.
// - An arrived slice is reported before it can be ordered, so the coordinator knows all runs in it.
//
// A move that fails is reported, and ends when the coordinator stops ordering it.
class ServerMoves {
 public:
  ServerMoves(HostedSlices& slices, const ReplicaForwards& forwards) : slices_(slices), forwards_(forwards) {}

  // Moves, or replicas, which arrive by moves.
  bool any() const { return !outgoing_.empty() || !arrived_.empty() || slices_.replicas() > 0; }

  // ---- moves from this server
  // Takes the orders, and drops what has arrived and is not expected.
  void Take(const std::vector<MoveOrder>& orders, const std::vector<uint64_t>& incoming);
  void OnConnected(uint64_t id) {
    const auto at = outgoing_.find(id);
    if (at == outgoing_.end() || at->second.connected || !at->second.failure.empty()) return;
    BeginFreeze(&at->second);
  }
  void OnTaken(uint64_t id);
  void OnFailed(uint64_t id, const Status& why) {
    const auto at = outgoing_.find(id);
    if (at != outgoing_.end()) Fail(&at->second, why.ToString());
  }
  void OnAcknowledged();  // by the server of a replica
  // Actions for the shell. In SendMove the steps decided so far are missing.
  std::vector<MoveAction> TakeActions();
  // Freezes a slice that is moving as soon as no step of it is half done.
  void FreezeIfWhole(HostedSlice* hosted);

  // ---- pushes to slices that move
  // True if the slice does not take the run because it moves.
  bool HeldBack(HostedSlice* hosted, const PushRequest& request);
  SliceOutcome OutcomeOfHeldBack(const HostedSlice& hosted, const PushRequest& request);
  bool StillMoving(const SliceReply& slice) const;
  // The incarnation is here as a replica, or has arrived by a move.
  bool Arriving(const SliceIncarnation& which) const;

  // ---- moves to this server
  // The slices of a move, ordered by id. kInvalidArgument: the job has no such slices; kResourceExhausted:
  // too many moves have arrived that nobody has ordered.
  Status OnArrived(uint64_t id, std::vector<MovedSlice> slices);
  bool HasArrived(const SliceIncarnation& which) const;
  bool HasArrived(uint64_t move, const SliceIncarnation& which) const;
  // The slice of an order, which is then no longer kept here; none if it has not arrived.
  std::optional<MovedSlice> TakeArrived(const SliceOrder& order);
  void ForgetArrived() { arrived_.clear(); }

  // ---- heartbeats
  void ReportLedgers(std::vector<LedgerReport>* reports);  // adds those of arrived slices
  // `more`: the ledgers of the report are not complete yet.
  void Report(ServerHeartbeat* heartbeat);

 private:
  struct OutgoingMove {
    MoveOrder order;
    bool connected = false;
    uint64_t front = 0;  // ssp: its slices take no runs of this step or later ones
    size_t frozen = 0;   // slices
    bool sent = false;
    std::string failure;
    bool all_frozen() const { return frozen == order.slices.size(); }
  };
  // The slices of a move to this server, until they are ordered or the coordinator does not expect them.
  struct ArrivedMove {
    std::vector<MovedSlice> slices;
    bool in_report = false;  // the current report of the ledgers has them
    bool reported = false;   // a heartbeat has reported it, so the coordinator may make the move
  };

  void Begin(const MoveOrder& order);
  void BeginFreeze(OutgoingMove* move);
  uint64_t Front(const OutgoingMove& move) const;
  void Freeze(HostedSlice* hosted);
  void End(const OutgoingMove& move);
  void Fail(OutgoingMove* move, std::string why);
  static bool StepIsOpen(const HostedSlice& hosted) { return hosted.lanes_end > hosted.slice->version; }

  HostedSlices& slices_;
  const ReplicaForwards& forwards_;
  std::map<uint64_t, OutgoingMove> outgoing_;
  std::map<uint64_t, ArrivedMove> arrived_;
  std::vector<MoveAction> actions_;
};

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
// Orders that cannot be carried out are reported in heartbeats.
class SliceOrders {
 public:
  SliceOrders(HostedSlices& slices, ServerMoves& moves) : slices_(slices), moves_(moves) {}

  // Adds slices that a checkpoint has to `loads`. True if a replica has taken the place of its primary.
  bool Take(const ServerHeartbeatReply& reply, LoadSlices* loads);
  // Forgets primaries that are gone.
  void OnView(const View& view) {
    std::erase_if(link_of_, [&](const auto& entry) { return !view.Find(entry.first); });
  }
  // Drops all.
  void OnEvicted() {
    slices_.DropAll();
    lost_.clear();
  }
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
