// Slices that change their servers while they are live: when servers join or leave, when one has much more to
// do than others, and when a slice lacks its replica.
//
// A move is made by one heartbeat: that of the server to which the slices have been sent. From then on they
// are its own, and the reply lets it hold them. The other server keeps them frozen until its next heartbeat.
// A move that is not made yet can always be given up, because the slices then go on where they are.
//
// A replica is made by a copy, and exists from the heartbeat on in which its server reports that the copy has
// arrived. From then on the primary answers nothing that the replica lacks, until it is told that there is
// none. So if the primary is gone, the replica takes its place in the same incarnation. Both are journaled
// before any server is told.
//
// Invariants:
// - At most one move is under way, between two members.
// - A move begins only while all slices are live and the caller allows it, and takes no slice that a
//   checkpoint still needs from the server that has it.
// - A move is made only if each of its slices is where it was, in the incarnation it had, when the move
// began.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "protocol/slices/slice_moves.h"
#include "protocol/slices/slice_placement.h"
#include "protocol/slices/traffic_meter.h"

namespace leat::protocol {

class SliceTransfers {
 public:
  // By slice: it is in the checkpoint that is being saved; nothing: none is being saved.
  using SavedSlices = std::function<std::optional<std::vector<bool>>()>;

  SliceTransfers(SlicePlacement* placement, Roster* roster, Outbox* outbox)
      : placement_(*placement),
        slices_(placement->map()),
        roster_(*roster),
        outbox_(*outbox),
        traffic_(placement->settings().table.slices.size()) {}

  // SlicePlacement::Advance. The first placement takes the servers as they are, so nothing is planned for it.
  Status PlaceSlices(Time now);
  // Gives up the move under way if it is late or no longer possible, and plans and begins moves. `may_plan`:
  // the job goes on. `may_begin`: no checkpoint is about to be saved.
  void Advance(Time now, bool may_plan, bool may_begin, const SavedSlices& saved);

  // ---- heartbeats of servers
  // A server lacks slices that it has said to have, and that are its own now.
  bool LacksMoved(const ServerHeartbeat& heartbeat) const;
  void OnReports(Time now, const ServerHeartbeat& heartbeat);
  void AddOrders(Time now, NodeId server, ServerHeartbeatReply* reply);

  // ---- servers that come and go
  void OnServersChanged() { servers_changed_ = true; }
  void Forget(NodeId server);
  // The server hands its slices over, and then leaves. Returns in one line why it must not.
  Status DrainServer(Time now, NodeId server);
  void BeginDraining(NodeId server);
  // A server that wants to leave may go: nothing of it is needed, or nobody else can take it. `ending`: the
  // job ends, so nothing moves any more.
  bool MayLeave(NodeId server, bool ending) const;

  // ---- checkpoints: each slice is to be on one server while it is saved
  bool active() const { return moves_.active().has_value(); }
  // Gives up the move under way unless its slices are frozen: those will have moved soon.
  void CancelUnfrozen(Time now);

  void AddTo(SliceRows::Moves* rows) const;

 private:
  // Whether all slices of the move under way are where they were when it began.
  bool MoveHolds() const;
  bool IsPossible(const SliceMoves::Planned& move) const;
  void FinishMove(Time now);  // the one under way
  void PlanMoves(Time now);
  void PlanReplicas();
  void BeginMove(Time now, const SavedSlices& saved);
  std::vector<uint64_t> SliceBytes() const;

  SlicePlacement& placement_;
  SliceMap& slices_;
  Roster& roster_;
  Outbox& outbox_;
  SliceMoves moves_;
  TrafficMeter traffic_;
  bool servers_changed_ = false;  // since moves were planned
  Time next_balance_{0};          // when the load of the servers is compared next
};

}  // namespace leat::protocol
