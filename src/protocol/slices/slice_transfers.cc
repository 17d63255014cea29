#include "protocol/slices/slice_transfers.h"

#include <algorithm>

#include "protocol/topology/topology_settings.h"

namespace leat::protocol {

namespace {

// How often the load of the servers is compared, and after a plan that levels it.
constexpr Duration kBalanceInterval = std::chrono::seconds(5), kCoolDown = std::chrono::seconds(30);

// The bytes of one move follow the time that moves take.
constexpr uint64_t kLeastBytes = 64 << 10, kMostBytes = 16 << 20;
constexpr Duration kShortMove = std::chrono::milliseconds(40), kLongMove = std::chrono::milliseconds(120);
// A move that takes longer is given up: to begin with, and for each byte.
constexpr Duration kMoveTimeout = std::chrono::seconds(1);
constexpr uint64_t kSlowestLink = 4 << 20;  // bytes per second
// Until the slices are frozen, if workers wait for it: at first, and after each failure twice as long.
constexpr Duration kFreezeTimeout = std::chrono::milliseconds(250);
constexpr Duration kFailurePause = std::chrono::milliseconds(250),
                   kMaxFailurePause = std::chrono::seconds(30);
constexpr uint32_t kMaxDoublings = 7;

}  // namespace

MoveOrder* SliceMoves::Begin(Time now,
                             const std::function<std::optional<uint64_t>(const Planned&)>& bytes_of) {
  if (active_ || now < next_) return nullptr;
  Move move;
  for (auto at = planned_.begin(); at != planned_.end();) {
    const bool first = move.order.slices.empty();
    const auto failures = failures_.find({at->from, at->to});
    const bool fits = first ? failures == failures_.end() || now >= failures->second.until
                            : at->from == move.from && at->to == move.order.to && at->kind == move.order.kind;
    const std::optional<uint64_t> bytes = fits ? bytes_of(*at) : std::nullopt;
    if (!bytes || (!first && *bytes > 0 && move.bytes + *bytes > most_bytes_)) {
      ++at;
      continue;
    }
    if (*bytes > 0) {
      move.from = at->from;
      move.order.to = at->to;
      move.order.kind = at->kind;
      move.order.slices.push_back({at->slice, {}});
      move.bytes += *bytes;
    }
    at = planned_.erase(at);
  }
  if (move.order.slices.empty()) return nullptr;
  std::ranges::sort(move.order.slices);
  active_ = std::move(move);
  return &active_->order;
}

const MoveOrder* SliceMoves::OrderFor(Time now, NodeId server, uint64_t version) {
  if (!active_ || active_->from != server) return nullptr;
  if (!active_->ordered) active_->ordered = now;
  active_->order.version = version;
  return &active_->order;
}

bool SliceMoves::Late(Time now, bool waits) const {
  if (!active_->ordered) return false;
  if (active_->frozen) {
    const double seconds = static_cast<double>(active_->bytes) / static_cast<double>(kSlowestLink);
    return now - *active_->frozen > kMoveTimeout + FromSeconds(seconds);
  }
  if (waits) return false;
  const auto failures = failures_.find({active_->from, active_->order.to});
  const uint32_t doublings =
      failures == failures_.end() ? 0 : std::min(failures->second.in_a_row, kMaxDoublings);
  return now - *active_->ordered > kFreezeTimeout * (1 << doublings);
}

void SliceMoves::Finish(Time now) {
  const Duration took = now - active_->frozen.value_or(active_->ordered.value_or(now));
  if (took < kShortMove) most_bytes_ = std::min(2 * most_bytes_, kMostBytes);
  if (took > kLongMove) most_bytes_ = std::max(most_bytes_ / 2, kLeastBytes);
  next_ = now + kPauseFactor * took;
  moved_slices_ += active_->order.slices.size();
  if (active_->order.kind != MoveOrder::Kind::kHandOver) moved_bytes_ += active_->bytes;
  failures_.erase({active_->from, active_->order.to});
  active_.reset();
}

void SliceMoves::Cancel(Time now, bool failed) {
  const Move move = std::move(*active_);
  active_.reset();
  for (const SliceIncarnation& which : move.order.slices)
    planned_.push_back({which.slice, move.from, move.order.to, move.order.kind});
  // Workers may have waited for it.
  if (move.frozen) next_ = now + kPauseFactor * (now - *move.frozen);
  if (!failed) return;
  ++failed_;
  Failures& failures = failures_[{move.from, move.order.to}];
  const uint32_t doublings = std::min(failures.in_a_row++, kMaxDoublings);
  failures.until = now + std::min(kFailurePause * (1 << doublings), kMaxFailurePause);
}

void SliceMoves::Forget(NodeId server) {
  std::erase_if(planned_, [&](const Planned& one) { return one.from == server || one.to == server; });
  std::erase_if(failures_, [&](const auto& entry) {
    return entry.first.first == server || entry.first.second == server;
  });
}

Status SliceTransfers::PlaceSlices(Time now) {
  const bool were_placed = slices_.placed();
  Status placed = placement_.Advance(now);
  if (!were_placed && slices_.placed()) servers_changed_ = false;
  return placed;
}

void SliceTransfers::Advance(Time now, bool may_plan, bool may_begin, const SavedSlices& saved) {
  if (!slices_.placed()) return;
  if (moves_.active()) {
    // Without steps, and with those of ssp, workers wait from the beginning.
    const StrategyConfig& strategy = roster_.settings().strategy;
    const bool waits = strategy.stepped() && strategy.ahead() == 0;
    if (!MoveHolds()) {
      moves_.Cancel(now, false);
    } else if (moves_.Late(now, waits)) {
      moves_.Cancel(now, true);
    }
  }
  if (moves_.active() || !slices_.ready() || !may_plan || placement_.any_orphan()) return;
  if (servers_changed_ || (moves_.planned().empty() && now >= next_balance_)) PlanMoves(now);
  if (moves_.planned().empty() && placement_.replicas_changed()) PlanReplicas();
  if (may_begin) BeginMove(now, saved);
}

// ---- heartbeats of servers

void SliceTransfers::OnReports(Time now, const ServerHeartbeat& heartbeat) {
  traffic_.OnReport(now, heartbeat.node, heartbeat.traffic);
  for (const MoveReport& report : heartbeat.moves) {
    const auto& move = moves_.active();
    if (!move || move->order.id != report.id) continue;  // given up, or made
    if (report.stage == MoveReport::Stage::kArrived && heartbeat.node == move->order.to) {
      if (MoveHolds()) FinishMove(now);
    } else if (heartbeat.node == move->from) {
      if (report.stage == MoveReport::Stage::kFrozen) {
        moves_.OnFrozen(now);
        // The replicas have all that it has.
        if (move->order.kind == MoveOrder::Kind::kHandOver && MoveHolds()) {
          FinishMove(now);
          continue;
        }
      }
      if (report.stage == MoveReport::Stage::kFailed) moves_.Cancel(now, true);
    }
  }
}

void SliceTransfers::AddOrders(Time now, NodeId server, ServerHeartbeatReply* reply) {
  reply->drain = roster_.Draining(server);
  if (const MoveOrder* order = moves_.OrderFor(now, server, slices_.Version()))
    reply->moves.push_back(*order);
  if (moves_.active() && moves_.active()->order.to == server)
    reply->incoming.push_back(moves_.active()->order.id);
  placement_.AddReplicas(server, reply);
}

// ---- the move under way

void SliceTransfers::FinishMove(Time now) {
  const MoveOrder& order = moves_.active()->order;
  for (const SliceIncarnation& which : order.slices) {
    if (order.kind == MoveOrder::Kind::kCopy) {
      slices_.SetReplica(which.slice, order.to, order.id);
    } else {
      slices_.Move(which.slice, order.to, order.id);
      outbox_.ChangeView();
    }
  }
  placement_.RememberSite();
  moves_.Finish(now);
  placement_.SetReplicasChanged(true);
}

bool SliceTransfers::MoveHolds() const {
  const auto& move = moves_.active();
  return roster_.Has(move->from) && roster_.Has(move->order.to) &&
         std::ranges::all_of(move->order.slices, [&](const SliceIncarnation& which) {
           return IsPossible({which.slice, move->from, move->order.to, move->order.kind}) &&
                  slices_.At(which.slice).incarnation == which.incarnation;
         });
}

bool SliceTransfers::IsPossible(const SliceMoves::Planned& move) const {
  const bool replica_there = slices_.At(move.slice).replica == move.to;
  return slices_.At(move.slice).server == move.from && roster_.Has(move.to) && move.from != move.to &&
         replica_there == (move.kind == MoveOrder::Kind::kHandOver);
}

// ---- plans

Balance SliceTransfers::Weigh(const std::vector<double>& traffic, std::vector<NodeId>* servers) const {
  Balance balance;
  std::map<NodeId, uint32_t> index_of;
  for (const auto& [server, weight] : placement_.WeighServers()) {
    index_of[server] = static_cast<uint32_t>(servers->size());
    servers->push_back(server);
    balance.weights.push_back(weight);
  }
  std::vector<uint64_t> bytes;
  for (uint32_t i = 0; i < slices_.size(); ++i) bytes.push_back(slices_.At(SliceId(i)).bytes);
  const std::vector<double> loads = SliceLoads(bytes, traffic);
  for (uint32_t i = 0; i < slices_.size(); ++i) {
    const PlacedSlice& placed = slices_.At(SliceId(i));
    Balance::Slice slice{index_of.at(placed.server), {}, loads[i]};
    if (placed.replica != NodeId()) {
      const auto at = index_of.find(placed.replica);
      slice.replica = at == index_of.end() ? UINT32_MAX : at->second;
    }
    balance.slices.push_back(slice);
  }
  return balance;
}

void SliceTransfers::PlanMoves(Time now) {
  next_balance_ = now + kBalanceInterval;
  std::vector<NodeId> servers;
  const Balance balance = Weigh(traffic_.Rates(), &servers);
  // Placements that do not level the load by themselves are levelled for a new server alone.
  const bool fresh = servers_changed_ &&
                     !std::ranges::all_of(servers, [this](NodeId server) { return slices_.Holds(server); });
  const Placement::Kind kind = placement_.settings().placement.kind;
  const bool by_load = kind != Placement::kRoundRobin && kind != Placement::kOwn;
  const bool level = fresh || moves_.levels() || (by_load && OutOfBalance(balance));
  servers_changed_ = false;
  placement_.SetReplicasChanged(true);
  std::vector<SliceMoves::Planned> planned;
  for (const SliceMove& move : protocol::PlanMoves(balance, level)) {
    const NodeId to = servers[move.to];
    const bool there = slices_.At(SliceId(move.slice)).replica == to;
    planned.push_back({SliceId(move.slice), servers[move.from], to,
                       there ? MoveOrder::Kind::kHandOver : MoveOrder::Kind::kMove});
  }
  if (!planned.empty()) next_balance_ = now + kCoolDown;
  moves_.Plan(std::move(planned), level);
}

void SliceTransfers::PlanReplicas() {
  placement_.SetReplicasChanged(false);
  if (placement_.settings().replicas < 2) return;
  std::vector<NodeId> servers;
  Balance balance = Weigh({}, &servers);
  if (roster_.AnyPlaceKnown()) {
    std::vector<topology::HostPlace> places;
    for (const NodeId server : servers) places.push_back(roster_.At(server).place);
    balance.allowed = topology::ReplicaServers(places, balance.weights);
  }
  std::vector<SliceMoves::Planned> planned;
  for (const ReplicaChange& change : PlanReplicaChanges(balance)) {
    const SliceId slice(change.slice);
    if (change.to) {
      planned.push_back({slice, slices_.At(slice).server, servers[*change.to], MoveOrder::Kind::kCopy});
    } else {
      placement_.LoseReplica(slice);
    }
  }
  placement_.SetReplicasChanged(false);
  moves_.Plan(std::move(planned), false);
}

void SliceTransfers::BeginMove(Time now, const SavedSlices& saved_slices) {
  if (moves_.planned().empty()) return;
  const std::optional<std::vector<bool>> saved = saved_slices();
  const auto bytes_of = [&](const SliceMoves::Planned& planned) -> std::optional<uint64_t> {
    if (!IsPossible(planned)) {
      // Another plan does it in another way.
      placement_.SetReplicasChanged(true);
      servers_changed_ = servers_changed_ || planned.kind != MoveOrder::Kind::kCopy;
      return 0;
    }
    // The checkpoint needs the slice from the server that has it now.
    const bool leaves = planned.kind != MoveOrder::Kind::kCopy;
    if (leaves && saved && !(*saved)[planned.slice.value]) return std::nullopt;
    return slices_.At(planned.slice).bytes;
  };
  MoveOrder* const order = moves_.Begin(now, bytes_of);
  if (!order) return;
  order->id = outbox_.NextId();
  order->address = roster_.AddressOf(order->to);
  for (SliceIncarnation& which : order->slices) which.incarnation = slices_.At(which.slice).incarnation;
}

// ---- servers that come and go

Status SliceTransfers::DrainServer(Time now, NodeId server) {
  const MemberState* const member = roster_.Find(server);
  if (member == nullptr || !member->Is(Role::kServer))
    return {Code::kNotFound, "node " + ToString(server) + " is no server of this job"};
  if (!placement_.OthersMayTake(server)) {
    return {Code::kFailedPrecondition,
            Name(member->member) + " is the only server: nobody else can take its slices"};
  }
  BeginDraining(server);
  if (moves_.active() && moves_.active()->order.to == server) moves_.Cancel(now, false);
  return {};
}

bool SliceTransfers::MayLeave(NodeId server, bool ending) const {
  if (ending) return !slices_.Holds(server);
  const auto& move = moves_.active();
  const bool moving = move && (move->from == server || move->order.to == server);
  if (!slices_.Holds(server)) return !moving && !slices_.HoldsReplicas(server);
  return !placement_.OthersMayTake(server);
}

void SliceTransfers::AddTo(SliceRows::Moves* rows) const {
  rows->planned = moves_.planned().size();
  rows->slices = moves_.moved_slices();
  rows->bytes = moves_.moved_bytes();
  rows->failed = moves_.failed();
  if (moves_.active()) rows->planned += moves_.active()->order.slices.size();
}

}  // namespace leat::protocol
