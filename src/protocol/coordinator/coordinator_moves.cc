// Slices that move between servers: when servers join or leave, and when one has much more to do than others.
//
// A move is made by one heartbeat: that of the server to which the slices have been sent. From then on they
// are its own, and the reply lets it hold them. The other server keeps them frozen until its next heartbeat.
// A move that is not made yet can always be given up, because the slices then go on where they are.
#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/text.h"
#include "protocol/coordinator/coordinator_state.h"
#include "protocol/slices/rebalance.h"

namespace leat::protocol {

namespace {

// How often the load of the servers is compared, and after a plan that levels it.
constexpr Duration kBalanceInterval = std::chrono::seconds(5), kCoolDown = std::chrono::seconds(30);

}  // namespace

void Coordinator::State::OnMoveReports(Time now, const ServerHeartbeat& heartbeat) {
  for (const MoveReport& report : heartbeat.moves) {
    const auto& move = moves.active();
    if (!move || move->order.id != report.id) continue;  // given up, or made
    if (report.stage == MoveReport::Stage::kArrived && heartbeat.node == move->order.to) {
      if (MoveHolds()) MakeMove(now);
    } else if (heartbeat.node == move->from) {
      if (report.stage == MoveReport::Stage::kFrozen) {
        moves.OnFrozen(now);
        // The replicas have all that it has.
        if (move->order.kind == MoveOrder::Kind::kHandOver && MoveHolds()) {
          MakeMove(now);
          continue;
        }
      }
      if (report.stage == MoveReport::Stage::kFailed) moves.Cancel(now, true);
    }
  }
}

void Coordinator::State::MakeMove(Time now) {
  const MoveOrder& order = moves.active()->order;
  for (const SliceIncarnation& which : order.slices) {
    if (order.kind == MoveOrder::Kind::kCopy) {
      slices.SetReplica(which.slice, order.to, order.id);
    } else {
      slices.Move(which.slice, order.to, order.id);
      view_changed = true;
    }
  }
  NoteSite();
  moves.Finish(now);
  replicas_changed = true;
}

// A server lacks slices that it has said to have, and that are its own now.
bool Coordinator::State::LacksMoved(const ServerHeartbeat& heartbeat) const {
  return std::ranges::any_of(heartbeat.failed, [&](const SliceIncarnation& which) {
    return which.slice.value < slices.size() && slices.ServerOf(which.slice) == heartbeat.node &&
           slices.IncarnationOf(which.slice) == which.incarnation && slices.HandedOver(which.slice);
  });
}

bool Coordinator::State::MoveHolds() const {
  const auto& move = moves.active();
  return members.contains(move->from) && members.contains(move->order.to) &&
         std::ranges::all_of(move->order.slices, [&](const SliceIncarnation& which) {
           return IsPossible({which.slice, move->from, move->order.to, move->order.kind}) &&
                  slices.IncarnationOf(which.slice) == which.incarnation;
         });
}

bool Coordinator::State::IsPossible(const SliceMoves::Planned& move) const {
  const bool replica_there = slices.ReplicaOf(move.slice) == move.to;
  return slices.ServerOf(move.slice) == move.from && members.contains(move.to) && move.from != move.to &&
         replica_there == (move.kind == MoveOrder::Kind::kHandOver);
}

void Coordinator::State::AddMoves(Time now, NodeId server, ServerHeartbeatReply* reply) {
  reply->drain = Draining(server);
  if (const MoveOrder* order = moves.OrderFor(now, server, slices.Version())) reply->moves.push_back(*order);
  if (moves.active() && moves.active()->order.to == server)
    reply->incoming.push_back(moves.active()->order.id);
  AddReplicas(server, reply);
}

void Coordinator::State::StepMoves(Time now) {
  if (AllReduce() || !slices.placed()) return;
  if (moves.active()) {
    // Without steps, and with those of ssp, workers wait from the beginning.
    const bool waits = Stepped() && config.strategy.ahead() == 0;
    if (!MoveHolds()) {
      moves.Cancel(now, false);
    } else if (moves.Late(now, waits)) {
      moves.Cancel(now, true);
    }
  }
  if (moves.active() || !slices.ready() || ending != Ending::kNone || !orphans_since.empty()) return;
  if (servers_changed || (moves.planned().empty() && now >= next_balance)) PlanMovesOf(now);
  if (moves.planned().empty() && replicas_changed) PlanReplicas();
  // A checkpoint that begins waits for no further one.
  if (!pending || pending->stage != PendingCheckpoint::Stage::kPreparing) BeginMove(now);
}

double Coordinator::State::WeightOf(const MemberState& member) const {
  const Placement& placement = config.placement;
  const uint32_t index = member.member.index;
  if (member.member.state == Member::State::kDraining || std::ranges::count(placement.exclude, index) > 0)
    return 0;
  if (placement.kind != Placement::kWeighted) return 1;
  if (index < placement.weights.size()) return placement.weights[index];
  // A server that the job does not know weighs as much as the others on average.
  const double sum = std::accumulate(placement.weights.begin(), placement.weights.end(), 0.0);
  const auto some = std::ranges::count_if(placement.weights, [](double weight) { return weight > 0; });
  return some > 0 ? sum / static_cast<double>(some) : 1;
}

std::vector<std::pair<NodeId, double>> Coordinator::State::WeighServers() const {
  std::vector<NodeId> servers = Servers();
  const auto holds = [this](NodeId server) { return slices.Holds(server); };
  // Servers that hold slices come first: further ones are spares.
  std::ranges::stable_sort(servers, [&](NodeId a, NodeId b) {
    return std::pair(!holds(a), members.at(a).member.index) <
           std::pair(!holds(b), members.at(b).member.index);
  });
  const std::set<NodeId> elsewhere = Elsewhere();
  const bool any_takes = std::ranges::any_of(
      servers, [&](NodeId server) { return Takes(server) && !elsewhere.contains(server); });
  const size_t most = std::max({config.max_servers, config.servers, 1u});
  size_t takes = 0;
  std::vector<std::pair<NodeId, double>> weights;
  for (NodeId server : servers) {
    const MemberState& member = members.at(server);
    // Excluded servers take slices if there is no other one.
    const double weight = elsewhere.contains(server) ? 0
                          : any_takes                ? WeightOf(member)
                          : Draining(server)         ? 0
                                                     : 1;
    const bool spare = weight <= 0 || ++takes > most;
    if (!spare || holds(server)) weights.emplace_back(server, weight);
  }
  return weights;
}

void Coordinator::State::PlanMovesOf(Time now) {
  next_balance = now + kBalanceInterval;
  const auto servers = WeighServers();
  Balance balance;
  std::map<NodeId, uint32_t> index_of;
  for (const auto& [server, weight] : servers) {
    index_of[server] = static_cast<uint32_t>(index_of.size());
    balance.weights.push_back(weight);
  }
  std::vector<uint64_t> bytes;
  for (uint32_t i = 0; i < slices.size(); ++i) bytes.push_back(slices.BytesOf(SliceId(i)));
  const std::vector<double> loads = SliceLoads(bytes, traffic.Rates());
  for (uint32_t i = 0; i < slices.size(); ++i)
    balance.slices.push_back({index_of.at(slices.ServerOf(SliceId(i))), loads[i]});

  // Placements that do not level the load by themselves are levelled for a new server alone.
  const bool fresh = servers_changed && !std::ranges::all_of(servers, [this](const auto& server) {
                       return slices.Holds(server.first);
                     });
  const bool by_load =
      config.placement.kind != Placement::kRoundRobin && config.placement.kind != Placement::kOwn;
  const bool level = fresh || moves.levels() || (by_load && OutOfBalance(balance));
  servers_changed = false;
  replicas_changed = true;
  std::vector<SliceMoves::Planned> planned;
  for (const SliceMove& move : PlanMoves(balance, level)) {
    const NodeId to = servers[move.to].first;
    const bool there = slices.ReplicaOf(SliceId(move.slice)) == to;
    planned.push_back({SliceId(move.slice), servers[move.from].first, to,
                       there ? MoveOrder::Kind::kHandOver : MoveOrder::Kind::kMove});
  }
  if (!planned.empty()) next_balance = now + kCoolDown;
  moves.Plan(std::move(planned), level);
}

void Coordinator::State::BeginMove(Time now) {
  if (moves.planned().empty()) return;
  std::optional<std::vector<bool>> saved;
  if (pending && pending->stage == PendingCheckpoint::Stage::kSaving) saved = Saved();
  const auto bytes_of = [&](const SliceMoves::Planned& planned) -> std::optional<uint64_t> {
    if (!IsPossible(planned)) {
      // Another plan does it in another way.
      replicas_changed = true;
      servers_changed = servers_changed || planned.kind != MoveOrder::Kind::kCopy;
      return 0;
    }
    // The checkpoint needs the slice from the server that has it now.
    const bool leaves = planned.kind != MoveOrder::Kind::kCopy;
    if (leaves && saved && !(*saved)[planned.slice.value]) return std::nullopt;
    return slices.BytesOf(planned.slice);
  };
  MoveOrder* const order = moves.Begin(now, bytes_of);
  if (!order) return;
  order->id = NextId();
  order->address = members.at(order->to).member.address;
  for (SliceIncarnation& which : order->slices) which.incarnation = slices.IncarnationOf(which.slice);
}

void Coordinator::State::BeginDraining(MemberState* server) {
  if (server->member.state == Member::State::kDraining) return;
  SetState(server, Member::State::kDraining);
  servers_changed = true;
}

Status Coordinator::State::DrainServer(Time now, NodeId server) {
  const auto at = members.find(server);
  if (at == members.end() || at->second.member.role != Role::kServer)
    return {Code::kNotFound, "node " + ToString(server) + " is no server of this job"};
  const bool others = std::ranges::any_of(
      Servers(), [&](NodeId other) { return other != server && !Draining(other) && SiteAllows(other); });
  if (!others)
    return {Code::kFailedPrecondition,
            Name(at->second.member) + " is the only server: nobody else can take its slices"};
  BeginDraining(&at->second);
  if (moves.active() && moves.active()->order.to == server) moves.Cancel(now, false);
  return {};
}

Status Coordinator::State::CanScaleServers(uint32_t servers) const {
  const auto refuse = [](std::string why) { return Status(Code::kInvalidArgument, std::move(why)); };
  if (AllReduce()) {
    return refuse("the job has no servers: with strategy " + std::string(Name(config.strategy.kind)) +
                  " every worker has all parameters");
  }
  const uint32_t most = std::max({config.max_servers, config.servers, 1u});
  if (servers == 0) return refuse("0 servers: the job needs at least 1");
  if (servers > most) {
    return refuse(std::to_string(servers) + " servers: the slices of this job were made for at most " +
                  std::to_string(most) + " (cluster.max_ps)");
  }
  if (servers < config.replicas) {
    return refuse(Plural(servers, "server") + ": each slice of this job is on " +
                  std::to_string(config.replicas) + " servers (cluster.replicas)");
  }
  const Placement& placement = config.placement;
  for (uint32_t index = 0; index < servers; ++index) {
    const bool weightless = placement.kind == Placement::kWeighted && index < placement.weights.size() &&
                            placement.weights[index] <= 0;
    if (std::ranges::count(placement.exclude, index) == 0 && !weightless) return {};
  }
  return refuse(Plural(servers, "server") + ": the placement lets none of them hold slices");
}

bool Coordinator::State::MayLeave(NodeId server) const {
  if (ending != Ending::kNone) return !slices.Holds(server);
  const auto& move = moves.active();
  const bool moving = move && (move->from == server || move->order.to == server);
  if (!slices.Holds(server)) return !moving && !slices.HoldsReplicas(server);
  return std::ranges::all_of(
      Servers(), [&](NodeId other) { return other == server || Draining(other) || !SiteAllows(other); });
}

// ---- public interface

Status Coordinator::DrainServer(Time now, NodeId server) {
  return state_->DrainServer(now, server);
}

Status Coordinator::CanScaleServers(uint32_t servers) const {
  return state_->CanScaleServers(servers);
}

}  // namespace leat::protocol
