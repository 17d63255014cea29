#include "protocol/slices/slice_placement.h"

#include <numeric>
#include <stdexcept>

#include "base/text.h"
#include "protocol/topology/topology_settings.h"

namespace leat::protocol {

SlicePlacement::SlicePlacement(const SliceSettings& settings, size_t partitions, Roster* roster,
                               Outbox* outbox)
    : settings_(settings),
      roster_(*roster),
      outbox_(*outbox),
      map_(settings.table, partitions, [outbox] { return Incarnation(outbox->NextId()); }),
      wanted_(settings.servers) {
  if (settings.table.slices.empty()) throw std::invalid_argument("the model has no variables");
}

// ---- placement

Status SlicePlacement::Advance(Time now) {
  if (!map_.placed()) return PlaceAll(now);
  if (any_orphan()) AdoptOrphans(now);
  return {};
}

Status SlicePlacement::PlaceAll(Time now) {
  std::vector<NodeId> servers = roster_.Servers();
  const std::set<NodeId> elsewhere = ServersElsewhere();
  const size_t wanted = std::max(wanted_, 1u);
  if (servers.size() < wanted) return {};
  std::erase_if(servers, [&](NodeId server) { return elsewhere.contains(server); });
  // Some of those that are wanted may be about to join in the same site.
  if (!servers_came_) servers_came_ = now;
  if (servers.empty() || (servers.size() < wanted && now - *servers_came_ < settings_.server_wait)) return {};
  // Server 0 of the placement is the one displayed as ps 0.
  std::ranges::sort(servers, {}, [this](NodeId server) { return roster_.At(server).member.index; });
  servers.resize(std::min(servers.size(), wanted));
  const auto assignment = Place(settings_.table, PlacementOn(servers), static_cast<uint32_t>(servers.size()));
  if (!assignment.ok()) return assignment.status();
  map_.PlaceAll(servers, *assignment);
  RememberSite();
  outbox_.ChangeView();
  return {};
}

void SlicePlacement::AdoptOrphans(Time now) {
  std::vector<NodeId> servers = roster_.Servers();
  const std::set<NodeId> elsewhere = ServersElsewhere();
  std::erase_if(servers, [&](NodeId server) { return elsewhere.contains(server); });
  // Servers that leave, or are excluded from the placement, take over slices only if there is no other
  // server.
  const auto unwilling = [this](NodeId server) { return !Takes(server); };
  if (!std::ranges::all_of(servers, unwilling)) std::erase_if(servers, unwilling);
  for (const NodeId former : map_.Orphaned()) {
    // A spare of another site has to wait: servers of this site may come back.
    const auto spare =
        SiteIsLost() ? servers.end()
                     : std::ranges::find_if(servers, [&](NodeId server) { return !map_.Holds(server); });
    if (spare != servers.end()) {
      map_.Adopt(former, {*spare});
    } else if (!servers.empty() && now - orphans_since_[former] >= settings_.server_wait) {
      map_.Adopt(former, servers);
    } else {
      continue;
    }
    orphans_since_.erase(former);
    outbox_.ChangeView();
  }
}

void SlicePlacement::Restore(const std::vector<SliceAssignment>& assignments) {
  map_.RestorePlaces(assignments, roster_.Servers());
  RememberSite();
  for (const NodeId server : map_.Orphaned()) orphans_since_[server] = Time(0);
}

bool SlicePlacement::LoseServer(Time now, NodeId server) {
  for (uint32_t i = 0; i < map_.size(); ++i) {
    if (map_.At(SliceId(i)).replica == server) LoseReplica(SliceId(i));
  }
  map_.Orphan(server);
  replicas_changed_ = true;
  if (std::ranges::count(map_.Orphaned(), server) == 0) return false;
  orphans_since_[server] = now;
  return true;
}

Status SlicePlacement::OnReport(const ServerHeartbeat& heartbeat) {
  OnLostReplicas(heartbeat);
  settled_ = settled_ && map_.ready();
  const Result<bool> changed = map_.Report(heartbeat, roster_.Servers());
  if (changed.ok() && *changed) outbox_.ChangeView();
  return changed.ok() ? Status() : changed.status();
}

bool SlicePlacement::BecameReady() {
  // A replica that takes a lost server's place may have made them ready before this report.
  if (!map_.ready() || std::exchange(settled_, true)) return false;
  replicas_changed_ = true;
  return true;
}

void SlicePlacement::RememberSite() {
  std::map<std::string, size_t> counts;
  for (const NodeId server : roster_.Servers()) {
    if (map_.Holds(server)) ++counts[roster_.At(server).place.site];
  }
  if (counts.empty()) return;
  site_ = std::ranges::max_element(counts, {}, [](const auto& site) { return site.second; })->first;
}

// ---- servers

std::set<NodeId> SlicePlacement::ServersElsewhere() const {
  const topology::TopologySettings& topology = roster_.settings().topology;
  if (!roster_.AnyPlaceKnown() && topology.server_site.empty() && topology.server_class.empty()) return {};
  std::vector<NodeId> servers;
  std::vector<topology::HostPlace> places;
  std::set<NodeId> elsewhere;
  for (const NodeId server : roster_.Servers()) {
    if (!SiteAllows(server)) {
      elsewhere.insert(server);
    } else if (!roster_.Draining(server)) {
      servers.push_back(server);
      places.push_back(roster_.At(server).place);
    }
  }
  const std::vector<double> weights = topology::ServerWeights(topology, places, site_);
  for (size_t s = 0; s < servers.size(); ++s) {
    if (weights[s] <= 0) elsewhere.insert(servers[s]);
  }
  return elsewhere;
}

bool SlicePlacement::SiteAllows(NodeId server) const {
  const std::string& site = roster_.settings().topology.server_site;
  return site.empty() || roster_.At(server).place.site == site;
}

bool SlicePlacement::SiteIsLost() const {
  if (roster_.settings().topology.servers_anywhere || !site_) return false;
  return std::ranges::none_of(roster_.Servers(),
                              [this](NodeId server) { return roster_.At(server).place.site == *site_; });
}

double SlicePlacement::WeightOf(const MemberState& server) const {
  const Placement& placement = settings_.placement;
  const uint32_t index = server.member.index;
  if (server.draining() || std::ranges::count(placement.exclude, index) > 0) return 0;
  if (placement.kind != Placement::kWeighted) return 1;
  if (index < placement.weights.size()) return placement.weights[index];
  // A server that the job does not know weighs as much as the others on average.
  const double sum = std::accumulate(placement.weights.begin(), placement.weights.end(), 0.0);
  const auto some = std::ranges::count_if(placement.weights, [](double weight) { return weight > 0; });
  return some > 0 ? sum / static_cast<double>(some) : 1;
}

std::vector<std::pair<NodeId, double>> SlicePlacement::WeighServers() const {
  std::vector<NodeId> servers = roster_.Servers();
  const auto holds = [this](NodeId server) { return map_.Holds(server); };
  // Servers that hold slices come first: further ones are spares.
  std::ranges::stable_sort(servers, [&](NodeId a, NodeId b) {
    return std::pair(!holds(a), roster_.At(a).member.index) <
           std::pair(!holds(b), roster_.At(b).member.index);
  });
  const std::set<NodeId> elsewhere = ServersElsewhere();
  const bool any_takes = std::ranges::any_of(
      servers, [&](NodeId server) { return Takes(server) && !elsewhere.contains(server); });
  const size_t most = std::max({settings_.max_servers, wanted_, 1u});
  size_t takes = 0;
  std::vector<std::pair<NodeId, double>> weights;
  for (const NodeId server : servers) {
    // Excluded servers take slices if there is no other one.
    const double weight = elsewhere.contains(server) ? 0
                          : any_takes                ? WeightOf(roster_.At(server))
                          : roster_.Draining(server) ? 0
                                                     : 1;
    const bool spare = weight <= 0 || ++takes > most;
    if (!spare || holds(server)) weights.emplace_back(server, weight);
  }
  return weights;
}

// The placement names servers by index, also some that are not wanted any more, or are in another site.
Placement SlicePlacement::PlacementOn(const std::vector<NodeId>& servers) const {
  Placement placement = settings_.placement;
  placement.exclude.clear();
  placement.weights.clear();
  for (uint32_t i = 0; i < servers.size(); ++i) {
    const MemberState& server = roster_.At(servers[i]);
    const double weight = WeightOf(server);
    if (std::ranges::count(settings_.placement.exclude, server.member.index) > 0)
      placement.exclude.push_back(i);
    if (!settings_.placement.weights.empty()) placement.weights.push_back(weight);
  }
  // If no other server is there, they hold slices all the same.
  if (placement.exclude.size() == servers.size()) placement.exclude.clear();
  const bool weightless = std::ranges::all_of(placement.weights, [](double weight) { return weight <= 0; });
  if (weightless) placement.weights.assign(placement.weights.size(), 1);
  return placement;
}

bool SlicePlacement::OthersMayTake(NodeId server) const {
  return std::ranges::any_of(roster_.Servers(), [&](NodeId other) {
    return other != server && !roster_.Draining(other) && SiteAllows(other);
  });
}

Status SlicePlacement::CanHave(uint32_t servers) const {
  const auto refuse = [](std::string why) { return Status(Code::kInvalidArgument, std::move(why)); };
  const MemberSettings& job = roster_.settings();
  if (job.all_reduce()) {
    return refuse("the job has no servers: with strategy " + std::string(Name(job.strategy.kind)) +
                  " every worker has all parameters");
  }
  const uint32_t most = std::max({settings_.max_servers, wanted_, 1u});
  if (servers == 0) return refuse("0 servers: the job needs at least 1");
  if (servers > most) {
    return refuse(std::to_string(servers) + " servers: the slices of this job were made for at most " +
                  std::to_string(most) + " (cluster.max_ps)");
  }
  if (servers < settings_.replicas) {
    return refuse(Plural(servers, "server") + ": each slice of this job is on " +
                  std::to_string(settings_.replicas) + " servers (cluster.replicas)");
  }
  const Placement& placement = settings_.placement;
  for (uint32_t index = 0; index < servers; ++index) {
    const bool weightless = placement.kind == Placement::kWeighted && index < placement.weights.size() &&
                            placement.weights[index] <= 0;
    if (std::ranges::count(placement.exclude, index) == 0 && !weightless) return {};
  }
  return refuse(Plural(servers, "server") + ": the placement lets none of them hold slices");
}

// ---- replicas

void SlicePlacement::LoseReplica(SliceId slice) {
  // Lately, only the replica's server would have reported the runs that workers were told of.
  roster_.Rely(map_.At(slice).server);
  map_.DropReplica(slice);
  replicas_changed_ = true;
}

void SlicePlacement::OnLostReplicas(const ServerHeartbeat& heartbeat) {
  for (const LostReplica& lost : heartbeat.lost_replicas) {
    const SliceId slice = lost.slice.slice;
    if (slice.value >= map_.size() || lost.epoch == 0 || map_.At(slice).epoch != lost.epoch) continue;
    if (map_.At(slice).incarnation != lost.slice.incarnation) continue;
    if (map_.At(slice).server == heartbeat.node || map_.At(slice).replica == heartbeat.node)
      LoseReplica(slice);
  }
}

void SlicePlacement::AddReplicas(NodeId server, ServerHeartbeatReply* reply) const {
  if (map_.replicated() == 0) return;
  reply->replicated = map_.ReplicatedOn(server);
  for (ReplicaGroup& group : reply->replicated) {
    if (roster_.Has(group.server)) group.address = roster_.AddressOf(group.server);
  }
  reply->replicas = map_.ReplicasOn(server);
}

// ---- status

SliceRows SlicePlacement::rows() const {
  SliceRows rows;
  rows.replicas = settings_.replicas;
  rows.replicated = map_.replicated();
  for (const NodeId server : roster_.Servers()) {
    if (roster_.Draining(server)) rows.moves.draining.push_back(server);
  }
  if (settings_.replicas < 2) return rows;
  for (uint32_t i = 0; i < map_.size(); ++i) {
    const NodeId replica = map_.At(SliceId(i)).replica;
    if (replica != NodeId()) ++rows.replica_servers[{map_.At(SliceId(i)).server, replica}];
  }
  return rows;
}

void SlicePlacement::AddWarnings(std::map<std::string, std::string>* lines) const {
  if (settings_.replicas < 2 || !map_.placed() || !roster_.AnyPlaceKnown()) return;
  std::vector<topology::HostPlace> places;
  std::vector<double> weights;
  for (const auto& [server, weight] : WeighServers()) {
    places.push_back(roster_.At(server).place);
    weights.push_back(weight);
  }
  for (std::string& line : topology::ReplicaWarnings(places, weights)) (*lines)[line] = line;
}

}  // namespace leat::protocol
