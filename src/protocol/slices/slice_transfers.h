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

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "protocol/slices/rebalance.h"
#include "protocol/slices/slice_placement.h"

namespace leat::protocol {

// The moves of slices between servers: which are to be made, and the one that is under way.
//
//   planned ── Begin ──> ordered ── OnFrozen ──> frozen ── Finish ──> made
//                           └──────── Cancel ──────┴─> planned, after a pause
//
// A move takes a few slices at a time, as many as one server can hand over to another while workers hardly
// notice, and is followed by a pause. Until it is finished, the slices belong to the server that had them.
// Its order may be withdrawn at any time before, and its id never comes again: what arrives by it later is
// not expected by anybody.
class SliceMoves {
 public:
  struct Planned {
    SliceId slice;
    NodeId from, to;
    MoveOrder::Kind kind = MoveOrder::Kind::kMove;
  };
  struct Move {
    MoveOrder order;
    NodeId from;
    uint64_t bytes = 0;           // values
    std::optional<Time> ordered;  // told to the server
    std::optional<Time> frozen;
  };
  // Workers wait for slices that move at most a fifth of the time.
  static constexpr int kPauseFactor = 4;

  // ---- plans
  // Replaces the plan. `levels`: it does more than to empty servers that leave, and is made anew as a whole
  // if it is interrupted.
  void Plan(std::vector<Planned> moves, bool levels) {
    planned_.assign(moves.begin(), moves.end());
    levels_ = levels;
  }
  const std::deque<Planned>& planned() const { return planned_; }
  bool levels() const { return levels_ && !planned_.empty(); }

  // ---- the move under way
  const std::optional<Move>& active() const { return active_; }
  // Orders the next of the planned moves if there is none under way, after the pause. `bytes_of` returns the
  // size of a slice that may move now, none for one that has to wait, and 0 for one that is not where it was
  // planned to be: it is dropped from the plan. The caller fills in the rest of the order.
  MoveOrder* Begin(Time now, const std::function<std::optional<uint64_t>(const Planned&)>& bytes_of);
  // The order for a reply to this server, if it is its part.
  const MoveOrder* OrderFor(Time now, NodeId server, uint64_t version);
  void OnFrozen(Time now) {
    if (!active_->frozen) active_->frozen = now;
  }
  // Whether the move has taken so long that something must be wrong. `waits`: the slices may have to wait for
  // a step before they can be frozen, as long as it takes, and workers do not wait for them.
  bool Late(Time now, bool waits) const;
  // The slices are the other server's now.
  void Finish(Time now);
  // They remain where they are, and are planned again. `failed`: its servers are left alone for a while.
  void Cancel(Time now, bool failed);
  void Forget(NodeId server);

  uint64_t moved_slices() const { return moved_slices_; }  // since the start
  uint64_t moved_bytes() const { return moved_bytes_; }    // their values, and those of copies
  uint64_t failed() const { return failed_; }              // moves

 private:
  struct Failures {
    uint32_t in_a_row = 0;
    Time until{0};
  };

  std::deque<Planned> planned_;
  bool levels_ = false;
  std::optional<Move> active_;
  Time next_{0};
  uint64_t most_bytes_ = 1 << 20;                           // limit of one move
  std::map<std::pair<NodeId, NodeId>, Failures> failures_;  // from, to
  uint64_t moved_slices_ = 0, moved_bytes_ = 0, failed_ = 0;
};

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
  bool LacksMoved(const ServerHeartbeat& heartbeat) const {
    return std::ranges::any_of(heartbeat.failed, [&](const SliceIncarnation& which) {
      return which.slice.value < slices_.size() && slices_.At(which.slice).server == heartbeat.node &&
             slices_.At(which.slice).incarnation == which.incarnation &&
             slices_.At(which.slice).handed_over();
    });
  }
  void OnReports(Time now, const ServerHeartbeat& heartbeat);
  void AddOrders(Time now, NodeId server, ServerHeartbeatReply* reply);

  // ---- servers that come and go
  void OnServersChanged() { servers_changed_ = true; }
  void Forget(NodeId server) {
    servers_changed_ = true;
    moves_.Forget(server);
    slices_.ForgetParts(server);
  }
  // The server hands its slices over, and then leaves. Returns in one line why it must not.
  Status DrainServer(Time now, NodeId server);
  void BeginDraining(NodeId server) {
    if (roster_.Draining(server)) return;
    roster_.SetState(server, Member::State::kDraining);
    servers_changed_ = true;
  }
  // A server that wants to leave may go: nothing of it is needed, or nobody else can take it. `ending`: the
  // job ends, so nothing moves any more.
  bool MayLeave(NodeId server, bool ending) const;

  // ---- checkpoints: each slice is to be on one server while it is saved
  bool active() const { return moves_.active().has_value(); }
  // Gives up the move under way unless its slices are frozen: those will have moved soon.
  void CancelUnfrozen(Time now) {
    if (moves_.active() && !moves_.active()->frozen) moves_.Cancel(now, false);
  }

  void AddTo(SliceRows::Moves* rows) const;

 private:
  // Whether all slices of the move under way are where they were when it began.
  bool MoveHolds() const;
  bool IsPossible(const SliceMoves::Planned& move) const;
  void FinishMove(Time now);  // the one under way
  void PlanMoves(Time now);
  void PlanReplicas();
  void BeginMove(Time now, const SavedSlices& saved);
  // The slices on these servers, which are appended in the order of their index.
  Balance Weigh(const std::vector<double>& traffic, std::vector<NodeId>* servers) const;

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
