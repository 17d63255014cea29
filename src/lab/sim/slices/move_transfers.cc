#include "lab/sim/slices/move_transfers.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lab/sim/cluster/concerns.h"

namespace leat::sim {

using namespace protocol;

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

void MoveTransfers::Advance(const ProcessPtr& p) {
  if (!p->alive || !p->server) return;
  if (const auto actions = p->server->TakeMoveActions(); !actions.empty()) all_.executor.Execute(p, actions);
}

void MoveTransfers::AtPoint(MovePoint point, const ProcessPtr& from, uint32_t to_address) {
  std::optional<MovePart> who;
  if (options_.move_death && options_.move_death->point == point) {
    who = options_.move_death->who;
    options_.move_death.reset();
  } else if (Chance(options_.faults.deaths_in_moves)) {
    who = static_cast<MovePart>(rng_.Below(3));
  }
  if (!who) return;
  // Not in the middle of an action.
  queue_.After(Duration(0), [this, who = *who, from, to_address] { Die(who, from, to_address); });
}

void MoveTransfers::Die(MovePart who, const ProcessPtr& from, uint32_t to_address) {
  if (who == MovePart::kFrom && from->alive) return all_.faults.Kill(from, true);
  const ProcessPtr to = processes_.At(to_address);
  if (who == MovePart::kTo && to) return all_.faults.Kill(to, true);
  if (who == MovePart::kCoordinator && all_.coordinators.newest()->active()) all_.faults.TroubleCoordinator();
}

void MoveTransfers::Execute(const ProcessPtr& p, const ConnectMove& a) {
  const uint32_t address = p->move_target = processes_.AddressIdOf(a.address);
  AtPoint(MovePoint::kOrdered, p, address);
  const bool lost =
      Chance(options_.faults.lost) || all_.outages.Isolated(p.get(), processes_.At(address).get());
  const Duration takes =
      Latency(p->host->latency) + Latency(p->host->latency) + (lost ? Between(50, 300) : Duration(0));
  all_.servers.Later(p, takes, [this, lost, address, id = a.id](Server& server) {
    if (lost || !processes_.At(address)) {
      server.OnMoveFailed(id, Status(Code::kUnavailable, "cannot connect"));
    } else {
      server.OnMoveConnected(id);
    }
  });
}

void MoveTransfers::Execute(const ProcessPtr& p, const SendMove& a) {
  ++world_.messages;
  const uint32_t address = p->move_target;
  AtPoint(MovePoint::kFrozen, p, address);
  const uint64_t bytes = SizeOf(a.slices);
  moved_bytes_ += bytes;
  const uint64_t id = a.id;
  const auto fail = [id](Server& server) {
    server.OnMoveFailed(id, Status(Code::kUnavailable, "connection lost"));
  };
  const auto send = [&](Time* arrives) {
    const RoleProcess* const to = processes_.At(address).get();
    Departure departure = all_.links.Leaves(p.get(), to, bytes, now(), nullptr, 1);
    if (to != nullptr) all_.links.CrossBoth(*p, *to, bytes, &departure);
    *arrives = departure.last;
    queue_.After(
        departure.first - now(), [this, p, address, id, bytes, last = departure.last, route = departure.route,
                                  slices = CopyOfMoved(a.slices)]() mutable {
          const ProcessPtr receiver = processes_.At(address);
          if (!receiver) return;
          const Time there = all_.links.Comes(receiver.get(), bytes, last, route);
          ScheduleIn(receiver, std::max(there - now(), Duration(0)),
                     [this, p, address, id, slices = std::move(slices)] { Arrive(address, p, id, slices); });
        });
  };
  Time arrives{0};
  if (Chance(options_.faults.duplicated)) send(&arrives);
  if (Chance(options_.faults.lost)) {
    // Without a broken connection, only the coordinator finds out.
    if (!rng_.Chance(0.3)) all_.servers.Later(p, Between(1, 100), fail);
    return;
  }
  send(&arrives);
  if (!processes_.At(address)) all_.servers.Later(p, arrives - now(), fail);
}

void MoveTransfers::Arrive(uint32_t address, const ProcessPtr& from, uint64_t id,
                           const std::vector<MovedSlice>& slices) {
  const ProcessPtr to = processes_.At(address);
  if (!to || all_.outages.Isolated(from.get(), to.get())) return;
  senders_[{to->slot, id}] = from;
  const Status status = to->server->OnMoveArrived(id, CopyOfMoved(slices));
  if (!status.ok() && from->alive && from->server) {
    all_.servers.Later(from, Latency(to->host->latency),
                       [id, status](Server& server) { server.OnMoveFailed(id, status); });
  }
  AtPoint(MovePoint::kArrived, from, address);
  all_.servers.Advance(to);
  all_.members.MaybeSendHeartbeat(to);
}

void MoveTransfers::Execute(const ProcessPtr& p, const AnswerMove& a) {
  if (a.status.ok()) ++moves_;
  const auto sender = senders_.extract({p->slot, a.id});
  if (!sender || !sender.mapped()->alive || !sender.mapped()->server) return;
  const ProcessPtr from = sender.mapped();
  if (a.status.ok()) AtPoint(MovePoint::kMade, from, p->address_id);
  if (all_.outages.Isolated(from.get(), p.get()) || Chance(options_.faults.lost)) return;
  all_.servers.Later(from, Latency(p->host->latency),
                     [this, from, to = p->address_id, id = a.id, status = a.status](Server& server) {
                       if (!status.ok()) return server.OnMoveFailed(id, status);
                       server.OnMoveTaken(id);
                       AtPoint(MovePoint::kReleased, from, to);
                     });
}

// Messages on their way may arrive all the same.
void MoveTransfers::Execute(const ProcessPtr&, const DropMove&) {}

}  // namespace leat::sim
