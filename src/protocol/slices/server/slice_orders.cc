#include "protocol/slices/server/slice_orders.h"

#include <algorithm>
#include <memory>

#include "protocol/guards.h"

namespace leat::protocol {

namespace {

// Arrived moves that are kept without an order: the coordinator makes one at a time.
constexpr size_t kMaxArrived = 4;
// Limit of primaries whose last number is known. A forgotten primary begins anew.
constexpr size_t kMaxPrimaries = 4096;

// `Slices`: those of a move, perhaps const.
template <class Slices>
auto FindIn(Slices& slices, const SliceIncarnation& which) {
  return std::ranges::find_if(slices, [&](const MovedSlice& moved) {
    return SliceIncarnation{moved.slice->id, moved.slice->incarnation} == which;
  });
}

}  // namespace

// ---- moves from this server

void ServerMoves::Fail(OutgoingMove* move, std::string why) {
  if (!move->failure.empty()) return;
  move->failure = std::move(why);
  slices_.signals().heartbeat_urgent = true;
}

void ServerMoves::Begin(const MoveOrder& order) {
  OutgoingMove& move = outgoing_[order.id];
  move.order = order;
  if (order.slices.empty()) return Fail(&move, "no slices");
  for (const SliceIncarnation& which : order.slices) {
    if (!slices_.Find(which)) return Fail(&move, "slice " + ToString(which.slice) + " is not here");
    if (slices_.At(which.slice).move != 0)
      return Fail(&move, "slice " + ToString(which.slice) + " moves already");
  }
  for (const SliceIncarnation& which : order.slices) slices_.At(which.slice).move = order.id;
  // The replicas are there.
  if (order.kind == MoveOrder::Kind::kHandOver) return BeginFreeze(&move);
  actions_.emplace_back(ConnectMove{order.id, order.to, order.address});
}

void ServerMoves::BeginFreeze(OutgoingMove* move) {
  move->connected = true;
  move->front = Front(*move);
  for (const SliceIncarnation& which : move->order.slices) {
    slices_.Hot(which.slice).moving = true;
    FreezeIfWhole(&slices_.At(which.slice));
  }
}

// The first step of which no slice of the move has a lane yet. Usually all slices are as far as each other;
// one that has come lately, or was a replica, may be behind.
uint64_t ServerMoves::Front(const OutgoingMove& move) const {
  uint64_t front = 0;
  for (const SliceIncarnation& which : move.order.slices) {
    const auto& hosted = slices_.all()[which.slice.value];
    if (!hosted || !hosted->slice || hosted->move != move.order.id) continue;
    front = std::max({front, hosted->slice->version, hosted->lanes_end});
  }
  return front;
}

// The slices that are still ordered from this server go on here.
void ServerMoves::End(const OutgoingMove& move) {
  for (const SliceIncarnation& which : move.order.slices) {
    HostedSlice* const hosted = slices_.Find(which);
    if (!hosted || hosted->move != move.order.id) continue;
    hosted->move = 0;
    hosted->frozen = hosted->handed_over = false;
    slices_.Hot(which.slice).moving = false;
  }
  slices_.signals().wake_parked = true;
  actions_.emplace_back(DropMove{move.order.id});
}

void ServerMoves::Take(const std::vector<MoveOrder>& orders, const std::vector<uint64_t>& incoming) {
  for (auto at = outgoing_.begin(); at != outgoing_.end();) {
    const auto order = std::ranges::find(orders, at->first, &MoveOrder::id);
    if (order == orders.end()) {
      End(at->second);
      at = outgoing_.erase(at);
      continue;
    }
    OutgoingMove& move = at->second;
    move.order.version = order->version;
    for (const SliceIncarnation& which : move.order.slices) {
      HostedSlice* const hosted = slices_.Find(which);
      if (!hosted || hosted->move != at->first) {
        Fail(&move, "slice " + ToString(which.slice) + " is not here");
      } else if (move.connected) {
        FreezeIfWhole(hosted);
      }
    }
    ++at;
  }
  for (const MoveOrder& order : orders) {
    if (!outgoing_.contains(order.id)) Begin(order);
  }
  std::erase_if(arrived_, [&](const auto& entry) {
    const auto& [id, move] = entry;
    if (!move.reported || std::ranges::count(incoming, id) > 0) return false;
    actions_.emplace_back(AnswerMove{id, Status(Code::kAborted, "the coordinator has given the move up")});
    slices_.signals().wake_parked = true;
    return true;
  });
}

void ServerMoves::OnTaken(uint64_t id) {
  const auto at = outgoing_.find(id);
  if (at == outgoing_.end() || !at->second.sent || !at->second.failure.empty()) return;
  // The next reply ends the wait.
  if (at->second.order.kind == MoveOrder::Kind::kCopy) {
    slices_.signals().heartbeat_urgent = true;
    return;
  }
  for (const SliceIncarnation& which : at->second.order.slices) slices_.At(which.slice).handed_over = true;
  slices_.signals().wake_parked = true;
}

void ServerMoves::OnAcknowledged() {
  for (const auto& [id, move] : outgoing_) {
    if (move.all_frozen() && forwards_.Acknowledged(move.order.slices))
      slices_.signals().heartbeat_urgent = true;
  }
}

std::vector<MoveAction> ServerMoves::TakeActions() {
  for (auto& [id, move] : outgoing_) {
    if (move.sent || !move.failure.empty() || move.frozen < move.order.slices.size()) continue;
    // The replica of a slice stays where it is, and has to have all that is sent.
    if (move.order.kind == MoveOrder::Kind::kHandOver || !forwards_.Acknowledged(move.order.slices)) continue;
    move.sent = true;
    SendMove send{id, {}};
    for (const SliceIncarnation& which : move.order.slices) {
      const HostedSlice& hosted = slices_.At(which.slice);
      send.slices.push_back({std::make_shared<const Slice>(slices_.WithLedger(hosted)), hosted.saved, {}});
    }
    actions_.emplace_back(std::move(send));
  }
  return std::exchange(actions_, {});
}

// If workers compute on the values of exactly the version of a frozen slice, none may need its values of the
// step before: so all slices must have reached it.
void ServerMoves::FreezeIfWhole(HostedSlice* hosted) {
  if (hosted->frozen || (slices_.stepped() && StepIsOpen(*hosted))) return;
  const OutgoingMove& move = outgoing_.at(hosted->move);
  if (slices_.stepped() && slices_.job().config().strategy.ahead() == 0) {
    if (hosted->slice->version > move.order.version || hosted->slice->version < Front(move)) return;
  } else if (slices_.stepped() && hosted->slice->version < move.front) {
    return;
  }
  Freeze(hosted);
}

void ServerMoves::Freeze(HostedSlice* hosted) {
  hosted->frozen = true;
  OutgoingMove& move = outgoing_.at(hosted->move);
  if (++move.frozen == move.order.slices.size()) slices_.signals().heartbeat_urgent = true;
}

// ---- pushes to slices that move

bool ServerMoves::HeldBack(HostedSlice* hosted, const PushRequest& request) {
  if (hosted->frozen) return true;
  if (!slices_.stepped()) return false;
  const uint64_t step = request.step_lane->step;
  const OutgoingMove& move = outgoing_.at(hosted->move);
  if (slices_.job().config().strategy.ahead() > 0) return step >= move.front;
  // Its worker has the values of this version of all slices, which have thus reached it.
  if (step != hosted->slice->version || StepIsOpen(*hosted) || step < Front(move)) return false;
  Freeze(hosted);
  return true;
}

SliceOutcome ServerMoves::OutcomeOfHeldBack(const HostedSlice& hosted, const PushRequest& request) {
  if (const auto known = OutcomeOf(slices_.ledgers().Lookup(hosted.order.slice.value))) return *known;
  return slices_.stepped() && request.step_lane->step < hosted.slice->version ? SliceOutcome::kLate
                                                                              : SliceOutcome::kMoving;
}

bool ServerMoves::StillMoving(const SliceReply& slice) const {
  const Slice* const alive = slices_.Alive(slice.slice);
  if (!alive) return Arriving({slice.slice, slice.incarnation});
  return alive->incarnation == slice.incarnation && slices_.Hot(slice.slice).moving &&
         !slices_.At(slice.slice).handed_over;
}

bool ServerMoves::Arriving(const SliceIncarnation& which) const {
  const Slice* const replica = slices_.Hot(which.slice).replica;
  return (replica && replica->incarnation == which.incarnation) || HasArrived(which);
}

// ---- moves to this server

Status ServerMoves::OnArrived(uint64_t id, std::vector<MovedSlice> slices) {
  const auto bad = [](std::string what) {
    return Status(Code::kInvalidArgument, "move: " + std::move(what));
  };
  if (slices.empty()) return bad("no slices");
  const JobSlices& job = slices_.job();
  std::optional<SliceId> before;
  for (const MovedSlice& moved : slices) {
    const SliceId slice = moved.slice->id;
    if (slice.value >= job.size() || (before && slice <= *before))
      return bad("slice " + ToString(slice) + " is unknown or out of order");
    before = slice;
    if (const Status fits = job.Fits(*moved.slice); !fits.ok()) return bad(fits.message());
    for (const DecidedStep& decided : moved.decided) {
      if (!FitsStrategy(decided, job.config().strategy))
        return bad("wrong lanes of step " + std::to_string(decided.step));
    }
  }
  // It has been taken before, and the answer was lost.
  const bool held = std::ranges::all_of(slices, [&](const MovedSlice& moved) {
    const auto& hosted = slices_.all()[moved.slice->id.value];
    return hosted && hosted->slice && hosted->order.move == id;
  });
  if (held) {
    actions_.emplace_back(AnswerMove{id, {}});
    return {};
  }
  if (arrived_.size() >= kMaxArrived && !arrived_.contains(id))
    return Status(Code::kResourceExhausted, std::to_string(arrived_.size()) + " moves wait for their orders");
  arrived_[id] = {.slices = std::move(slices)};
  slices_.signals().heartbeat_urgent = true;
  return {};
}

bool ServerMoves::HasArrived(const SliceIncarnation& which) const {
  return std::ranges::any_of(arrived_, [&](const auto& entry) { return HasArrived(entry.first, which); });
}

bool ServerMoves::HasArrived(uint64_t move, const SliceIncarnation& which) const {
  const auto at = arrived_.find(move);
  return at != arrived_.end() && FindIn(at->second.slices, which) != at->second.slices.end();
}

std::optional<MovedSlice> ServerMoves::TakeArrived(const SliceOrder& order) {
  const auto move = arrived_.find(order.move);
  if (move == arrived_.end()) return std::nullopt;
  auto& slices = move->second.slices;
  const auto at = FindIn(slices, {order.slice, order.incarnation});
  if (at == slices.end()) return std::nullopt;
  std::optional<MovedSlice> taken = std::move(*at);
  slices.erase(at);
  slices_.signals().wake_parked = true;
  if (slices.empty()) {
    actions_.emplace_back(AnswerMove{order.move, {}});
    arrived_.erase(move);
  }
  return taken;
}

// ---- heartbeats

void ServerMoves::ReportLedgers(std::vector<LedgerReport>* reports) {
  for (auto& [id, move] : arrived_) {
    move.in_report = true;
    for (const MovedSlice& moved : move.slices) {
      const Slice& slice = *moved.slice;
      reports->push_back(
          {{{slice.id, slice.incarnation}}, slice.events, slice.ledger.partitions(), slice.version});
    }
  }
}

void ServerMoves::Report(ServerHeartbeat* heartbeat) {
  for (const auto& [id, move] : outgoing_) {
    if (!move.failure.empty()) {
      heartbeat->moves.push_back({id, MoveReport::Stage::kFailed, move.failure});
    } else if (move.all_frozen() && forwards_.Acknowledged(move.order.slices)) {
      heartbeat->moves.push_back({id, MoveReport::Stage::kFrozen, ""});
    }
  }
  for (auto& [id, move] : arrived_) {
    // The coordinator is to know the whole ledgers before.
    if (!move.in_report || heartbeat->more) continue;
    heartbeat->moves.push_back({id, MoveReport::Stage::kArrived, ""});
    move.reported = true;
  }
}

// ---- orders

bool SliceOrders::Take(const ServerHeartbeatReply& reply, LoadSlices* loads) {
  const auto all = slices_.all();
  std::vector<const SliceOrder*> ordered(all.size(), nullptr);
  for (const SliceOrder& order : reply.orders) {
    if (order.slice.value < all.size()) ordered[order.slice.value] = &order;
  }
  std::vector<bool> stays(all.size(), false);  // as a replica
  for (const ReplicaGroup& group : reply.replicas) {
    for (const SliceIncarnation& which : group.slices) {
      if (which.slice.value >= stays.size() || ordered[which.slice.value]) continue;
      const auto& hosted = all[which.slice.value];
      stays[which.slice.value] = hosted && hosted->is_replica;
    }
  }
  bool promoted = false;
  for (uint32_t i = 0; i < all.size(); ++i) {
    const SliceOrder* order = ordered[i];
    if (!all[i] || stays[i]) continue;
    const SliceOrder& had = all[i]->order;
    if (order && GoesOn(*all[i], {order->slice, order->incarnation}, order->move)) {
      slices_.Promote(&*all[i], *order);
      promoted = true;
    } else if (!order || all[i]->is_replica || had.incarnation != order->incarnation ||
               had.move != order->move) {
      // A slice that has been handed over comes back by another move, in the same incarnation.
      slices_.Drop(SliceId(i));
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    if (ordered[i] && !all[i]) TakeOrder(*ordered[i], loads);
  }
  TakeReplicas(reply.replicas);
  return promoted;
}

void SliceOrders::TakeOrder(const SliceOrder& order, LoadSlices* loads) {
  HostedSlice* const hosted = slices_.Add(order);
  if (order.move == 0 && !order.directory.empty()) return loads->orders.push_back(order);
  slices_.signals().heartbeat_urgent = true;
  if (order.move == 0) return slices_.MakeLive(hosted, slices_.job().Make(order));
  if (!MakeArrived(hosted)) slices_.Fail(hosted, "move " + std::to_string(order.move) + " has not arrived");
}

bool SliceOrders::MakeArrived(HostedSlice* hosted) {
  std::optional<MovedSlice> moved = moves_.TakeArrived(hosted->order);
  if (!moved) return false;
  hosted->saved = moved->saved;
  slices_.MakeLive(hosted, std::make_shared<Slice>(*moved->slice), std::move(moved->decided));
  return true;
}

void SliceOrders::Report(ServerHeartbeat* heartbeat) {
  heartbeat->lost_replicas = lost_;
  const auto all = slices_.all();
  for (uint32_t i = 0; i < all.size(); ++i) {
    const auto& hosted = all[i];
    if (!hosted) continue;
    const SliceIncarnation which{SliceId(i), hosted->order.incarnation};
    if (hosted->diverged) heartbeat->lost_replicas.push_back({which, hosted->order.move});
    if (hosted->replica.lost) heartbeat->lost_replicas.push_back({which, hosted->replica.epoch});
    if (const Slice* alive = slices_.Alive(which.slice))
      heartbeat->version = std::max(heartbeat->version, alive->version);
  }
}

// ---- replicas

// Without a newer copy, the primary alone has changed: its replica is what it has sent on.
bool SliceOrders::GoesOn(const HostedSlice& hosted, const SliceIncarnation& which, uint64_t epoch) const {
  return hosted.is_replica && hosted.slice &&
         guards::SameIncarnation(hosted.slice->incarnation, which.incarnation) &&
         epoch >= hosted.order.move && !moves_.HasArrived(epoch, which);
}

HostedSlice* SliceOrders::MakeReplica(const SliceIncarnation& which, uint64_t epoch) {
  if (!moves_.HasArrived(epoch, which)) return nullptr;
  slices_.Drop(which.slice);
  HostedSlice* const hosted =
      slices_.Add({.slice = which.slice, .incarnation = which.incarnation, .move = epoch});
  hosted->is_replica = true;
  MakeArrived(hosted);
  slices_.signals().heartbeat_urgent = true;
  return hosted;
}

void SliceOrders::TakeReplicas(const std::vector<ReplicaGroup>& groups) {
  lost_.clear();
  for (const ReplicaGroup& group : groups) {
    for (const SliceIncarnation& which : group.slices) {
      if (which.slice.value >= slices_.size()) continue;
      auto& hosted = slices_.all()[which.slice.value];
      if (hosted && !hosted->is_replica) continue;
      if (hosted && !hosted->diverged && GoesOn(*hosted, which, group.epoch)) {
        hosted->order.move = group.epoch;
      } else if (!MakeReplica(which, group.epoch)) {
        slices_.Drop(which.slice);
        lost_.push_back({which, group.epoch});
        slices_.signals().heartbeat_urgent = true;
      }
    }
  }
}

bool SliceOrders::TakeNumber(const ForwardRequest& request, ForwardReply* reply) {
  if (link_of_.size() >= kMaxPrimaries && !link_of_.contains(request.from)) link_of_.clear();
  LinkNumber& last = link_of_[request.from];
  *reply = {.link = request.link, .number = 0, .broken = false};
  const bool same = request.link == last.link;
  if (same && request.number <= last.number) {
    reply->number = last.number;
    return false;
  }
  reply->broken = request.link < last.link || request.number != (same ? last.number : 0) + 1;
  if (reply->broken) return false;
  last = {request.link, request.number};
  reply->number = request.number;
  return true;
}

HostedSlice* SliceOrders::ReplicaOf(const SliceRef& ref, uint64_t epoch) {
  const SliceIncarnation which{ref.slice, ref.incarnation};
  auto& hosted = slices_.all()[ref.slice.value];
  if (hosted && !hosted->is_replica) return nullptr;
  if (hosted && !hosted->diverged && GoesOn(*hosted, which, epoch)) {
    hosted->order.move = epoch;
    return &*hosted;
  }
  // The primary knows before this server that the coordinator has made the replica.
  return MakeReplica(which, epoch);
}

}  // namespace leat::protocol
