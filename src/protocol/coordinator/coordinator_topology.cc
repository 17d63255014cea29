// Where members are: who may join, the site of the slices, and what does not fit the job's rules.
#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "protocol/coordinator/coordinator_state.h"
#include "protocol/topology/server_hosts.h"

namespace leat::protocol {

namespace {

// Attempts to join after which the round trip of a role is known: the first one also makes the connection.
constexpr uint32_t kAttempts = 3;

}  // namespace

Result<topology::HostPlace> Coordinator::State::CheckPlace(const JoinRequest& request) const {
  LEAT_ASSIGN_OR_RETURN(topology::HostPlace place,
                        topology::PlaceOf(config.topology, request.host, request.place));
  // A standby is far from the coordinator on purpose.
  if (!config.topology.refuse_far || request.role == Role::kCoordinator) return place;
  if (request.attempts < kAttempts)
    return Status(Code::kUnavailable, "the round trip of the role is not known yet");
  const std::string who = "this " + std::string(Name(request.role)) + " on host " + request.host;
  LEAT_RETURN_IF_ERROR(topology::CheckDistance(config.topology, who, request.round_trip));
  return place;
}

bool Coordinator::State::StandsBy(const JoinRequest& request, const topology::HostPlace& place) const {
  if (request.role != Role::kWorker || config.strategy.mpi) return false;
  const std::string& wanted = config.topology.worker_class;
  return request.standby || (!wanted.empty() && place.host_class != wanted);
}

bool Coordinator::State::HasPlaces() const {
  return std::ranges::any_of(members,
                             [](const auto& entry) { return entry.second.place != topology::HostPlace(); });
}

std::set<NodeId> Coordinator::State::Elsewhere() const {
  const topology::TopologySettings& topology = config.topology;
  if (!HasPlaces() && topology.server_site.empty() && topology.server_class.empty()) return {};
  std::vector<NodeId> servers;
  std::vector<topology::HostPlace> places;
  std::set<NodeId> elsewhere;
  for (const NodeId server : Servers()) {
    if (!SiteAllows(server)) {
      elsewhere.insert(server);
    } else if (!Draining(server)) {
      servers.push_back(server);
      places.push_back(members.at(server).place);
    }
  }
  const std::vector<double> weights = topology::ServerWeights(topology, places, slice_site);
  for (size_t s = 0; s < servers.size(); ++s) {
    if (weights[s] <= 0) elsewhere.insert(servers[s]);
  }
  return elsewhere;
}

bool Coordinator::State::SiteAllows(NodeId server) const {
  const std::string& site = config.topology.server_site;
  return site.empty() || members.at(server).place.site == site;
}

bool Coordinator::State::LeavesSite() const {
  if (config.topology.servers_anywhere || !slice_site) return false;
  return std::ranges::none_of(Servers(),
                              [this](NodeId server) { return members.at(server).place.site == *slice_site; });
}

void Coordinator::State::NoteSite() {
  std::map<std::string, size_t> counts;
  for (const NodeId server : Servers()) {
    if (slices.Holds(server)) ++counts[members.at(server).place.site];
  }
  if (counts.empty()) return;
  slice_site = std::ranges::max_element(counts, {}, [](const auto& site) { return site.second; })->first;
}

void Coordinator::State::AddPlaces(CoordinatorStatus* status) const {
  const topology::TopologySettings& topology = config.topology;
  std::map<std::string, std::string>& lines = status->misplaced;
  std::vector<topology::HostPlace> servers, workers;
  for (const auto& [node, its] : members) {
    if (its.place != topology::HostPlace() || its.round_trip > Duration(0))
      status->whereabouts.push_back({node, its.place, its.round_trip});
    if (its.member.role == Role::kServer) servers.push_back(its.place);
    if (its.member.role == Role::kWorker) workers.push_back(its.place);
    std::string far = topology::DistanceWarning(topology, Name(its.member), its.round_trip);
    if (!far.empty()) lines["node " + ToString(node)] = std::move(far);
  }
  const auto add = [&lines](const std::string& who, const Status& offered) {
    if (!offered.ok()) lines[who] = who + ": " + offered.message();
  };
  topology::TopologySettings of_servers, of_workers;
  of_servers.server_site = topology.server_site;
  of_servers.server_class = topology.server_class;
  of_workers.worker_class = topology.worker_class;
  if (!servers.empty()) add("servers", topology::CheckOffered(of_servers, servers));
  if (!workers.empty()) add("workers", topology::CheckOffered(of_workers, workers));
  if (config.replicas < 2) return;
  for (uint32_t i = 0; i < slices.size(); ++i) {
    const NodeId replica = slices.ReplicaOf(SliceId(i));
    if (replica != NodeId()) ++status->replica_servers[{slices.ServerOf(SliceId(i)), replica}];
  }
  if (!slices.placed() || !HasPlaces()) return;
  std::vector<topology::HostPlace> places;
  std::vector<double> weights;
  for (const auto& [server, weight] : WeighServers()) {
    places.push_back(members.at(server).place);
    weights.push_back(weight);
  }
  for (std::string& line : topology::ReplicaWarnings(places, weights)) lines[line] = line;
}

}  // namespace leat::protocol
