// The moves of slices between servers: which are to be made, and the one that is under way.
//
//   planned ── Begin ──> ordered ── OnFrozen ──> frozen ── Finish ──> made
//                           └──────── Cancel ──────┴─> planned, after a pause
//
// A move takes a few slices at a time, as many as one server can hand over to another while workers hardly
// notice, and is followed by a pause. Until it is finished, the slices belong to the server that had them.
// Its order may be withdrawn at any time before, and its id never comes again: what arrives by it later is
// not expected by anybody.
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

#include "base/clock.h"
#include "base/ids.h"
#include "protocol/messages_control.h"

namespace leat::protocol {

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
  static constexpr int kPause = 4;

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
  void OnFrozen(Time now);
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

}  // namespace leat::protocol
