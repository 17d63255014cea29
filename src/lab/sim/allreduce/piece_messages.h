// Messages among the members of an all-reduce group, in transit.
//
// A message occupies one slot of a slab from its sending until it is taken or dropped. It goes to a process
// of one incarnation, and is dropped if that is gone.
#pragma once

#include "lab/sim/allreduce/group_parts.h"
#include "lab/sim/events/memory.h"
#include "lab/sim/members/role_process.h"

namespace leat::sim {

class PieceMessages : Concern {
 public:
  using Concern::Concern;

  // Approximate size of a piece's headers.
  static constexpr uint64_t kHeaderBytes = 64;

  Piece& operator[](uint32_t m) { return pieces_[m]; }
  uint32_t New(const ProcessPtr& from, Piece::Kind kind, const Membership::Peer& to);
  void Free(uint32_t m);
  // Sends over the host's link, after earlier messages have been processed. Returns when the last byte has
  // left.
  Time Send(const ProcessPtr& from, uint32_t m, Time* in_order, double share_of_slow);

  // ---- events
  void OnArrives(uint32_t m);
  void OnDelivered(uint32_t m);
  void OnCrosses(uint32_t m);

 private:
  // There is no receiver. A caller retries.
  void Drop(uint32_t m);

  Slab<Piece> pieces_;
};

}  // namespace leat::sim
