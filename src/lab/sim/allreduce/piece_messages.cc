#include "lab/sim/allreduce/piece_messages.h"

#include <algorithm>

#include "lab/sim/allreduce/bucket_reductions.h"
#include "lab/sim/allreduce/group_connections.h"
#include "lab/sim/faults/outages.h"

namespace leat::sim {

using namespace protocol;

uint32_t PieceMessages::New(const ProcessPtr& from, Piece::Kind kind, const Membership::Peer& to) {
  const uint32_t m = pieces_.Allocate();
  Piece& piece = pieces_[m];
  piece = Piece();
  piece.kind = kind;
  piece.from = from->slot;
  piece.from_incarnation = from->incarnation;
  piece.to = to.slot;
  piece.to_incarnation = to.incarnation;
  piece.connection = to.connection;
  piece.group = from->group_member->in.group;
  piece.bytes = kHeaderBytes;
  if (kind == Piece::Kind::kCall || kind == Piece::Kind::kAnswer) {
    piece.greet = from->group_member->in.connections->MyGreet(ChannelKind::kData);
  }
  return m;
}

void PieceMessages::Free(uint32_t m) {
  pieces_[m].payload.reset();
  pieces_.Free(m);
}

Time PieceMessages::Send(const ProcessPtr& from, uint32_t m, Time* in_order, double share_of_slow) {
  ++world_.messages;
  Piece& piece = pieces_[m];
  const Departure departure =
      links_.Leaves(from.get(), processes_[piece.to].get(), piece.bytes,
                    std::max(world_.now(), from->busy_until), in_order, share_of_slow);
  piece.last_byte = departure.last;
  piece.route = departure.route;
  from->bytes.out += piece.bytes;
  world_.queue.At(departure.first, departure.route == Route::kOutOf ? kPieceCrosses : kPieceArrives, m);
  return departure.left;
}

// There is no receiver. A caller retries.
void PieceMessages::Drop(uint32_t m) {
  const Piece& piece = pieces_[m];
  if (const ProcessPtr caller = processes_[piece.from]; piece.kind == Piece::Kind::kCall && caller) {
    const Membership::Peer* peer = caller->group_member->in.On(piece.connection);
    if (peer != nullptr) connections_.Redial(caller, peer->rank);
  }
  Free(m);
}

void PieceMessages::OnArrives(uint32_t m) {
  Piece& piece = pieces_[m];
  const ProcessPtr p = processes_[piece.to];
  if (!p || (piece.to_incarnation != 0 && p->incarnation != piece.to_incarnation)) return Drop(m);
  if (outages_.Isolated(p.get(), processes_[piece.from].get())) return Drop(m);
  const Time there = links_.Comes(p.get(), piece.bytes, piece.last_byte, piece.route);
  if (there > world_.now()) return world_.queue.At(there, kPieceDelivered, m);
  OnDelivered(m);
}

void PieceMessages::OnDelivered(uint32_t m) {
  const ProcessPtr p = processes_[pieces_[m].to];
  if (!p || !p->group_member ||
      (pieces_[m].to_incarnation != 0 && p->incarnation != pieces_[m].to_incarnation))
    return Drop(m);
  if (world_.now() < p->paused_until) return world_.queue.At(p->paused_until, kPieceDelivered, m);
  p->bytes.in += pieces_[m].bytes;
  p->busy_until = std::max(p->busy_until, world_.now()) + cores_.Busy(p.get(), pieces_[m].bytes);
  if (!reductions_.Take(p, m)) Free(m);
}

void PieceMessages::OnCrosses(uint32_t m) {
  Piece& piece = pieces_[m];
  const Time next = links_.Crosses(processes_[piece.from].get(), processes_[piece.to].get(), piece.bytes,
                                   &piece.last_byte, &piece.route);
  world_.queue.At(next, piece.route == Route::kLink ? kPieceArrives : kPieceCrosses, m);
}

}  // namespace leat::sim
