#include "lab/sim/allreduce/piece_messages.h"

#include <algorithm>

#include "lab/sim/cluster/concerns.h"

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
  const Departure departure = all_.links.Leaves(from.get(), processes_[piece.to].get(), piece.bytes,
                                                std::max(now(), from->busy_until), in_order, share_of_slow);
  piece.last_byte = departure.last;
  piece.route = departure.route;
  from->bytes.out += piece.bytes;
  queue_.At(departure.first, departure.route == Route::kOutOf ? kPieceCrosses : kPieceArrives, m);
  return departure.left;
}

void PieceMessages::Drop(uint32_t m) {
  const Piece& piece = pieces_[m];
  if (const ProcessPtr caller = processes_[piece.from]; piece.kind == Piece::Kind::kCall && caller) {
    const Membership::Peer* peer = caller->group_member->in.On(piece.connection);
    if (peer != nullptr) all_.connections.Redial(caller, peer->rank);
  }
  Free(m);
}

void PieceMessages::OnArrives(uint32_t m) {
  Piece& piece = pieces_[m];
  const ProcessPtr p = processes_[piece.to];
  if (!p || (piece.to_incarnation != 0 && p->incarnation != piece.to_incarnation)) return Drop(m);
  if (all_.outages.Isolated(p.get(), processes_[piece.from].get())) return Drop(m);
  const Time there = all_.links.Comes(p.get(), piece.bytes, piece.last_byte, piece.route);
  if (there > now()) return queue_.At(there, kPieceDelivered, m);
  OnDelivered(m);
}

void PieceMessages::OnDelivered(uint32_t m) {
  const ProcessPtr p = processes_[pieces_[m].to];
  if (!p || !p->group_member ||
      (pieces_[m].to_incarnation != 0 && p->incarnation != pieces_[m].to_incarnation))
    return Drop(m);
  if (now() < p->paused_until) return queue_.At(p->paused_until, kPieceDelivered, m);
  p->bytes.in += pieces_[m].bytes;
  p->busy_until = std::max(p->busy_until, now()) + all_.cores.Busy(p.get(), pieces_[m].bytes);
  if (!all_.reductions.Take(p, m)) Free(m);
}

void PieceMessages::OnCrosses(uint32_t m) {
  Piece& piece = pieces_[m];
  const Time next = all_.links.Crosses(processes_[piece.from].get(), processes_[piece.to].get(), piece.bytes,
                                       &piece.last_byte, &piece.route);
  queue_.At(next, piece.route == Route::kLink ? kPieceArrives : kPieceCrosses, m);
}

}  // namespace leat::sim
