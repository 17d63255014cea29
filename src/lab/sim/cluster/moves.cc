// Slices that move between servers: connections, transfers and answers, with the faults of the data plane.
#include <algorithm>
#include <cstring>
#include <utility>

#include "lab/sim/cluster/cluster_state.h"

namespace leat::sim {

namespace {

uint64_t SizeOf(const std::vector<MovedSlice>& slices) {
  uint64_t bytes = 0;
  for (const MovedSlice& moved : slices)
    bytes += moved.slice->elements * (1 + moved.slice->slots) * sizeof(float);
  return bytes;
}

// As they are at this moment: a server that gives a move up changes the memory.
std::vector<MovedSlice> CopyOfMoved(const std::vector<MovedSlice>& slices) {
  std::vector<MovedSlice> copies = slices;
  for (MovedSlice& moved : copies) {
    auto copy = std::make_shared<Slice>(*moved.slice);
    if (copy->memory) {
      copy->memory = Buffer(moved.slice->memory.size());
      std::memcpy(copy->memory.data(), moved.slice->memory.data(), copy->memory.size());
    }
    moved.slice = std::move(copy);
  }
  return copies;
}

}  // namespace

void Cluster::State::DoMoves(const ProcessPtr& p) {
  if (p->alive && p->server) DoAll(p, p->server->TakeMoveActions());
}

void Cluster::State::Later(const ProcessPtr& p, Duration delay, std::function<void(Server&)> input) {
  ScheduleIn(p, delay, [this, p, incarnation = p->incarnation, input = std::move(input)] {
    if (incarnation != p->incarnation) return;
    input(*p->server);
    TakeReady(p);
    MaybeSendHeartbeat(p);
  });
}

void Cluster::State::AtMovePoint(MovePoint point, const ProcessPtr& from, uint32_t to_address) {
  std::optional<MovePart> who;
  if (options.move_death && options.move_death->point == point) {
    who = options.move_death->who;
    options.move_death.reset();
  } else if (Chance(options.faults.deaths_in_moves)) {
    who = static_cast<MovePart>(rng.Below(3));
  }
  if (!who) return;
  // Not in the middle of an action.
  queue.After(Duration(0), [this, who = *who, from, to_address] { Die(who, from, to_address); });
}

void Cluster::State::Die(MovePart who, const ProcessPtr& from, uint32_t to_address) {
  if (who == MovePart::kFrom && from->alive) return Kill(from, true);
  const uint32_t slot = address_slots[to_address].slot;
  if (who == MovePart::kTo && slot != AddressSlot::kNobody) return Kill(ProcessPtr(roles[slot]), true);
  if (who != MovePart::kCoordinator || !coordinator->alive || coordinator->ended) return;
  TroubleCoordinator();
}

void Cluster::State::Act(const ProcessPtr& p, const ConnectMove& a) {
  const uint32_t address = p->move_target = AddressIdOf(a.address);
  AtMovePoint(MovePoint::kOrdered, p, address);
  const uint32_t slot = address_slots[address].slot;
  const bool lost = Chance(options.faults.lost) ||
                    Isolated(p.get(), slot == AddressSlot::kNobody ? nullptr : roles[slot].get());
  const Duration takes =
      Latency(p->host->latency) + Latency(p->host->latency) + (lost ? Between(50, 300) : Duration(0));
  Later(p, takes, [this, lost, address, id = a.id](Server& server) {
    if (lost || address_slots[address].slot == AddressSlot::kNobody) {
      server.OnMoveFailed(id, Status(Code::kUnavailable, "cannot connect"));
    } else {
      server.OnMoveConnected(id);
    }
  });
}

void Cluster::State::Act(const ProcessPtr& p, const SendMove& a) {
  ++result.messages;
  const uint32_t address = p->move_target;
  AtMovePoint(MovePoint::kFrozen, p, address);
  const uint64_t bytes = SizeOf(a.slices);
  result.moved_bytes += bytes;
  const uint64_t id = a.id;
  const auto fail = [id](Server& server) {
    server.OnMoveFailed(id, Status(Code::kUnavailable, "connection lost"));
  };
  const auto send = [&](Time* arrives) {
    const uint32_t to = address_slots[address].slot;
    Departure departure =
        Leaves(p.get(), to == AddressSlot::kNobody ? nullptr : roles[to].get(), bytes, now(), nullptr, 1);
    if (to != AddressSlot::kNobody) CrossBoth(*p, *roles[to], bytes, &departure);
    *arrives = departure.last;
    queue.After(departure.first - now(), [this, p, address, id, bytes, last = departure.last,
                                          route = departure.route, slices = CopyOfMoved(a.slices)]() mutable {
      const uint32_t slot = address_slots[address].slot;
      if (slot == AddressSlot::kNobody) return;
      const Time there = Comes(roles[slot].get(), bytes, last, route);
      ScheduleIn(ProcessPtr(roles[slot]), std::max(there - now(), Duration(0)),
                 [this, p, address, id, slices = std::move(slices)] { ArriveMove(address, p, id, slices); });
    });
  };
  Time arrives{0};
  if (Chance(options.faults.duplicated)) send(&arrives);
  if (Chance(options.faults.lost)) {
    // Without a broken connection, only the coordinator finds out.
    if (!rng.Chance(0.3)) Later(p, Between(1, 100), fail);
    return;
  }
  send(&arrives);
  if (address_slots[address].slot == AddressSlot::kNobody) Later(p, arrives - now(), fail);
}

void Cluster::State::ArriveMove(uint32_t address, const ProcessPtr& from, uint64_t id,
                                const std::vector<MovedSlice>& slices) {
  const uint32_t slot = address_slots[address].slot;
  if (slot == AddressSlot::kNobody) return;
  const ProcessPtr to = roles[slot];
  if (Isolated(from.get(), to.get())) return;
  move_senders[{slot, id}] = from;
  const Status status = to->server->OnMoveArrived(id, CopyOfMoved(slices));
  if (!status.ok() && from->alive && from->server) {
    Later(from, Latency(to->host->latency),
          [id, status](Server& server) { server.OnMoveFailed(id, status); });
  }
  AtMovePoint(MovePoint::kArrived, from, address);
  TakeReady(to);
  MaybeSendHeartbeat(to);
}

void Cluster::State::Act(const ProcessPtr& p, const AnswerMove& a) {
  if (a.status.ok()) ++result.moves;
  const auto sender = move_senders.extract({p->slot, a.id});
  if (!sender || !sender.mapped()->alive || !sender.mapped()->server) return;
  const ProcessPtr from = sender.mapped();
  if (a.status.ok()) AtMovePoint(MovePoint::kMade, from, p->address_id);
  if (Isolated(from.get(), p.get()) || Chance(options.faults.lost)) return;
  Later(from, Latency(p->host->latency),
        [this, from, to = p->address_id, id = a.id, status = a.status](Server& server) {
          if (!status.ok()) return server.OnMoveFailed(id, status);
          server.OnMoveTaken(id);
          AtMovePoint(MovePoint::kReleased, from, to);
        });
}

// Messages on their way may arrive all the same.
void Cluster::State::Act(const ProcessPtr&, const DropMove&) {}

}  // namespace leat::sim
