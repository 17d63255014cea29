#include "lab/sim/slices/move_transfers.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lab/sim/faults/fault_injector.h"
#include "lab/sim/faults/outages.h"
#include "lab/sim/members/action_executor.h"
#include "lab/sim/members/role_processes.h"
#include "lab/sim/push/server_processes.h"
#include "lab/sim/succession/coordinator_processes.h"

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
  if (p->alive && p->server) executor_.Execute(p, p->server->TakeMoveActions());
}

void MoveTransfers::AtPoint(MovePoint point, const ProcessPtr& from, uint32_t to_address) {
  std::optional<MovePart> who;
  if (world_.options.move_death && world_.options.move_death->point == point) {
    who = world_.options.move_death->who;
    world_.options.move_death.reset();
  } else if (world_.Chance(world_.options.faults.deaths_in_moves)) {
    who = static_cast<MovePart>(world_.rng.Below(3));
  }
  if (!who) return;
  // Not in the middle of an action.
  world_.queue.After(Duration(0), [this, who = *who, from, to_address] { Die(who, from, to_address); });
}

void MoveTransfers::Die(MovePart who, const ProcessPtr& from, uint32_t to_address) {
  if (who == MovePart::kFrom && from->alive) return faults_.Kill(from, true);
  const uint32_t slot = processes_.SlotAt(to_address);
  if (who == MovePart::kTo && slot != ProcessTable::kNobody)
    return faults_.Kill(ProcessPtr(processes_[slot]), true);
  if (who != MovePart::kCoordinator || !coordinators_.newest()->alive || coordinators_.newest()->ended)
    return;
  faults_.TroubleCoordinator();
}

void MoveTransfers::Execute(const ProcessPtr& p, const ConnectMove& a) {
  const uint32_t address = p->move_target = processes_.AddressIdOf(a.address);
  AtPoint(MovePoint::kOrdered, p, address);
  const uint32_t slot = processes_.SlotAt(address);
  const bool lost =
      world_.Chance(world_.options.faults.lost) ||
      outages_.Isolated(p.get(), slot == ProcessTable::kNobody ? nullptr : processes_[slot].get());
  const Duration takes = world_.Latency(p->host->latency) + world_.Latency(p->host->latency) +
                         (lost ? world_.Between(50, 300) : Duration(0));
  servers_.Later(p, takes, [this, lost, address, id = a.id](Server& server) {
    if (lost || processes_.SlotAt(address) == ProcessTable::kNobody) {
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
    const uint32_t to = processes_.SlotAt(address);
    Departure departure = links_.Leaves(p.get(), to == ProcessTable::kNobody ? nullptr : processes_[to].get(),
                                        bytes, world_.now(), nullptr, 1);
    if (to != ProcessTable::kNobody) links_.CrossBoth(*p, *processes_[to], bytes, &departure);
    *arrives = departure.last;
    world_.queue.After(
        departure.first - world_.now(), [this, p, address, id, bytes, last = departure.last,
                                         route = departure.route, slices = CopyOfMoved(a.slices)]() mutable {
          const uint32_t slot = processes_.SlotAt(address);
          if (slot == ProcessTable::kNobody) return;
          const Time there = links_.Comes(processes_[slot].get(), bytes, last, route);
          world_.ScheduleIn(
              ProcessPtr(processes_[slot]), std::max(there - world_.now(), Duration(0)),
              [this, p, address, id, slices = std::move(slices)] { Arrive(address, p, id, slices); });
        });
  };
  Time arrives{0};
  if (world_.Chance(world_.options.faults.duplicated)) send(&arrives);
  if (world_.Chance(world_.options.faults.lost)) {
    // Without a broken connection, only the coordinator finds out.
    if (!world_.rng.Chance(0.3)) servers_.Later(p, world_.Between(1, 100), fail);
    return;
  }
  send(&arrives);
  if (processes_.SlotAt(address) == ProcessTable::kNobody) servers_.Later(p, arrives - world_.now(), fail);
}

void MoveTransfers::Arrive(uint32_t address, const ProcessPtr& from, uint64_t id,
                           const std::vector<MovedSlice>& slices) {
  const uint32_t slot = processes_.SlotAt(address);
  if (slot == ProcessTable::kNobody) return;
  const ProcessPtr to = processes_[slot];
  if (outages_.Isolated(from.get(), to.get())) return;
  senders_[{slot, id}] = from;
  const Status status = to->server->OnMoveArrived(id, CopyOfMoved(slices));
  if (!status.ok() && from->alive && from->server) {
    servers_.Later(from, world_.Latency(to->host->latency),
                   [id, status](Server& server) { server.OnMoveFailed(id, status); });
  }
  AtPoint(MovePoint::kArrived, from, address);
  servers_.Advance(to);
  members_.MaybeSendHeartbeat(to);
}

void MoveTransfers::Execute(const ProcessPtr& p, const AnswerMove& a) {
  if (a.status.ok()) ++moves_;
  const auto sender = senders_.extract({p->slot, a.id});
  if (!sender || !sender.mapped()->alive || !sender.mapped()->server) return;
  const ProcessPtr from = sender.mapped();
  if (a.status.ok()) AtPoint(MovePoint::kMade, from, p->address_id);
  if (outages_.Isolated(from.get(), p.get()) || world_.Chance(world_.options.faults.lost)) return;
  servers_.Later(from, world_.Latency(p->host->latency),
                 [this, from, to = p->address_id, id = a.id, status = a.status](Server& server) {
                   if (!status.ok()) return server.OnMoveFailed(id, status);
                   server.OnMoveTaken(id);
                   AtPoint(MovePoint::kReleased, from, to);
                 });
}

// Messages on their way may arrive all the same.
void MoveTransfers::Execute(const ProcessPtr&, const DropMove&) {}

}  // namespace leat::sim
