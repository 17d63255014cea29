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
// A move that fails is reported, and ends when the coordinator stops ordering it. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "protocol/actions.h"
#include "protocol/slices/server/replica_forwards.h"

namespace leat::protocol {

class ServerMoves {
 public:
  ServerMoves(HostedSlices& slices, const ReplicaForwards& forwards) : slices_(slices), forwards_(forwards) {}

  // Moves, or replicas, which arrive by moves.
  bool any() const { return !outgoing_.empty() || !arrived_.empty() || slices_.replicas() > 0; }

  // ---- moves from this server
  // Takes the orders, and drops what has arrived and is not expected.
  void Take(const std::vector<MoveOrder>& orders, const std::vector<uint64_t>& incoming);
  void OnConnected(uint64_t id);
  void OnTaken(uint64_t id);
  void OnFailed(uint64_t id, const Status& why);
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
  bool HasArrived(const SliceIncarnation& which) const { return FindArrived(which) != nullptr; }
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
  const Slice* FindArrived(const SliceIncarnation& which) const;

  HostedSlices& slices_;
  const ReplicaForwards& forwards_;
  std::map<uint64_t, OutgoingMove> outgoing_;
  std::map<uint64_t, ArrivedMove> arrived_;
  std::vector<MoveAction> actions_;
};

}  // namespace leat::protocol
