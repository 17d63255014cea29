// Slices that are on two servers: which server has the replica, and what happens when one of the two is gone.
//
// A replica is made by a copy (SliceMoves), and exists from the heartbeat on in which its server reports that
// the copy has arrived. From then on the primary answers nothing that the replica lacks, until it is told
// that there is none. So if the primary is gone, the replica takes its place in the same incarnation, and
// everything that is known about the slice remains. Both are journaled before any server is told.
#include <algorithm>
#include <map>
#include <utility>

#include "protocol/coordinator/coordinator_state.h"
#include "protocol/slices/rebalance.h"
#include "protocol/slices/replica_plan.h"
#include "protocol/topology/server_hosts.h"

namespace leat::protocol {

void Coordinator::State::LoseReplica(SliceId slice) {
  // Lately, only the replica's server would have reported the runs that workers were told of.
  if (const auto at = heartbeat_counts.find(slices.ServerOf(slice)); at != heartbeat_counts.end())
    at->second.Rely();
  slices.DropReplica(slice);
  replicas_changed = true;
}

void Coordinator::State::OnLostReplicas(const ServerHeartbeat& heartbeat) {
  for (const LostReplica& lost : heartbeat.lost_replicas) {
    const SliceId slice = lost.slice.slice;
    if (slice.value >= slices.size() || lost.epoch == 0 || slices.EpochOf(slice) != lost.epoch) continue;
    if (slices.IncarnationOf(slice) != lost.slice.incarnation) continue;
    if (slices.ServerOf(slice) == heartbeat.node || slices.ReplicaOf(slice) == heartbeat.node)
      LoseReplica(slice);
  }
}

// Replicas take the places of the server's slices. Returns true if it had slices without one.
bool Coordinator::State::LoseServer(Time now, NodeId server) {
  if (pending && pending->stage == PendingCheckpoint::Stage::kSaving) {
    const std::vector<bool> saved = Saved();
    for (uint32_t i = 0; i < slices.size(); ++i) {
      // Its next server may have reported its shard already.
      if (slices.ServerOf(SliceId(i)) != server || saved[i]) continue;
      GiveUpCheckpoint(now, HolderLost());
      break;
    }
  }
  for (uint32_t i = 0; i < slices.size(); ++i) {
    if (slices.ReplicaOf(SliceId(i)) == server) LoseReplica(SliceId(i));
  }
  slices.Orphan(server);
  replicas_changed = true;
  return std::ranges::count(slices.Orphaned(), server) > 0;
}

void Coordinator::State::AddReplicas(NodeId server, ServerHeartbeatReply* reply) const {
  if (slices.replicated() == 0) return;
  reply->replicated = slices.ReplicatedOn(server);
  for (ReplicaGroup& group : reply->replicated) {
    if (const auto at = members.find(group.server); at != members.end())
      group.address = at->second.member.address;
  }
  reply->replicas = slices.ReplicasOn(server);
}

void Coordinator::State::PlanReplicas() {
  replicas_changed = false;
  if (config.replicas < 2) return;
  ReplicaBalance balance;
  std::map<NodeId, uint32_t> index_of;
  std::vector<NodeId> servers;
  std::vector<topology::HostPlace> places;
  for (const auto& [server, weight] : WeighServers()) {
    index_of[server] = static_cast<uint32_t>(servers.size());
    servers.push_back(server);
    balance.weights.push_back(weight);
    places.push_back(members.at(server).place);
  }
  if (HasPlaces()) balance.allowed = topology::ReplicaServers(places, balance.weights);
  std::vector<uint64_t> bytes;
  for (uint32_t i = 0; i < slices.size(); ++i) bytes.push_back(slices.BytesOf(SliceId(i)));
  const std::vector<double> loads = SliceLoads(bytes, {});
  for (uint32_t i = 0; i < slices.size(); ++i) {
    ReplicaBalance::Slice slice{index_of.at(slices.ServerOf(SliceId(i))), {}, loads[i]};
    if (const NodeId replica = slices.ReplicaOf(SliceId(i)); replica != NodeId()) {
      const auto at = index_of.find(replica);
      slice.replica = at == index_of.end() ? UINT32_MAX : at->second;
    }
    balance.slices.push_back(slice);
  }
  std::vector<SliceMoves::Planned> planned;
  for (const ReplicaChange& change : PlanReplicaChanges(balance)) {
    const SliceId slice(change.slice);
    if (change.to) {
      planned.push_back({slice, slices.ServerOf(slice), servers[*change.to], MoveOrder::Kind::kCopy});
    } else {
      LoseReplica(slice);
    }
  }
  replicas_changed = false;
  moves.Plan(std::move(planned), false);
}

uint64_t Coordinator::State::HighestVersion() const {
  uint64_t highest = slices.HighestVersion();
  for (const auto& [node, member] : members) highest = std::max(highest, member.version);
  return highest;
}

}  // namespace leat::protocol
