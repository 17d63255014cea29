#include "protocol/members/roster.h"

#include <ranges>
#include <utility>

#include "protocol/topology/topology_settings.h"

namespace leat::protocol {

std::string Roster::AddressOf(NodeId node) const {
  const MemberState* const member = Find(node);
  return member == nullptr ? std::string() : member->member.address;
}

// ---- joining and leaving

const MemberState& Roster::Add(Time now, MemberState member, std::optional<uint32_t> index) {
  const Role role = member.member.role;
  const bool stands_by = member.stands_by();
  member.member.node = outbox_.NextNode();
  member.member.index = index ? *index : LowestFreeIndex(role, stands_by);
  if (stands_by) {
    ++standing_by_;
    outbox_.ChangeView();
  }
  member.last_seen = member.last_moved = now;
  Journal(member);
  const NodeId node = member.member.node;
  if (role == Role::kServer) heartbeat_counts_[node] = {};
  if (role != Role::kBots) outbox_.ChangeView();
  return members_[node] = std::move(member);
}

const MemberState& Roster::Restore(const MemberJoined& joined) {
  const NodeId node = joined.member.node;
  MemberState& member = members_[node];
  static_cast<MemberJoined&>(member) = joined;
  member.ready = !member.stands_by();
  if (!member.ready) ++standing_by_;
  if (member.Is(Role::kServer)) heartbeat_counts_[node] = {};
  return member;
}

void Roster::Remove(NodeId node, Gone how) {
  const MemberState& member = members_.at(node);
  const Role role = member.member.role;
  if (how == Gone::kLost && member.told_to_stop) how = Gone::kLeft;
  if (last_departures_.size() == MemberRows::kDepartures) last_departures_.pop_front();
  last_departures_.push_back({.number = ++departures_, .member = member.member, .how = how});
  if (member.stands_by()) --standing_by_;
  members_.erase(node);
  heartbeat_counts_.erase(node);
  outbox_.Journal(MembersLeft{{node}});
  if (role != Role::kBots) outbox_.ChangeView();
}

void Roster::SetState(NodeId node, Member::State state) {
  MemberState& member = members_.at(node);
  if (member.stands_by()) --standing_by_;
  if (state == Member::State::kStandby) ++standing_by_;
  member.member.state = state;
  outbox_.ChangeView();
  Journal(member);
}

uint32_t Roster::LowestFreeIndex(Role role, bool standby) const {
  // There is one index more than members, so at least one is free.
  std::vector<bool> taken(members_.size() + 1);
  for (const auto& [node, member] : members_) {
    const bool counts = member.Is(role) && member.stands_by() == standby;
    if (counts && member.member.index < taken.size()) taken[member.member.index] = true;
  }
  return static_cast<uint32_t>(std::ranges::find(taken, false) - taken.begin());
}

// ---- messages

MemberState* Roster::Heard(Time now, NodeId node, Role role) {
  const auto at = members_.find(node);
  if (at == members_.end() || !at->second.Is(role)) return nullptr;
  at->second.last_seen = at->second.last_moved = now;
  return &at->second;
}

KeepAliveReply Roster::OnKeepAlive(Time now, const KeepAlive& keep_alive, bool stopping) {
  KeepAliveReply reply;
  reply.standbys = outbox_.view()->standbys();
  const bool here = Has(keep_alive.node);
  reply.stop = stopping;
  reply.evicted = !here && !stopping;
  auto& known = here ? members_ : evicted_;
  const auto at = known.find(keep_alive.node);
  if (at == known.end()) return reply;
  MemberState& member = at->second;
  member.last_seen = now;
  if (keep_alive.round_trip > Duration(0)) member.round_trip = keep_alive.round_trip;
  const bool standby = member.Is(Role::kCoordinator);  // these are all that it sends
  if (member.progress != keep_alive.progress || standby) member.last_moved = now;
  member.progress = keep_alive.progress;
  if (standby) member.told_to_stop = stopping;
  reply.known = here && standby && member.shown && AllHaveView(*member.shown);
  return reply;
}

void Roster::OnServerHeartbeat(const ServerHeartbeat& heartbeat) {
  heartbeat_counts_[heartbeat.node].Add(heartbeat);
  members_.at(heartbeat.node).generation = heartbeat.generation;
}

bool Roster::SetUnreachable(Time now, NodeId worker, const std::vector<NodeId>& servers,
                            const std::set<NodeId>& awaited) {
  MemberState& member = members_.at(worker);
  member.unreachable.clear();
  for (const NodeId server : servers) {
    if (const MemberState* known = Find(server); known != nullptr && known->Is(Role::kServer))
      member.unreachable.push_back(server);
  }
  const bool isolated = std::ranges::any_of(member.unreachable, [&](NodeId server) {
    const bool silent =
        awaited.contains(server) || now - At(server).last_seen > 2 * settings_.heartbeat_interval;
    if (silent && !member.isolated) return false;
    return std::ranges::any_of(members_, [&](const auto& entry) {
      const auto& [node, other] = entry;
      return node != worker && other.Is(Role::kWorker) && !other.stands_by() &&
             std::ranges::count(other.unreachable, server) == 0;
    });
  });
  return std::exchange(member.isolated, isolated) != isolated;
}

// ---- silence

std::vector<NodeId> Roster::Silent(Time now) const {
  std::vector<NodeId> silent;
  for (const auto& [node, member] : members_) {
    if (now - member.last_seen > settings_.heartbeat_timeout) silent.push_back(node);
  }
  std::ranges::stable_sort(silent, {}, [this](NodeId node) { return At(node).last_seen; });
  return silent;
}

void Roster::ForgetSilentEvicted(Time now) {
  std::erase_if(evicted_, [&](const auto& entry) {
    return now - entry.second.last_seen > settings_.heartbeat_timeout;
  });
}

void Roster::ExcuseSilence(Time now, Duration away) {
  for (auto& [node, member] : members_) {
    member.last_seen = std::min(now, member.last_seen + away);
    member.last_moved = std::min(now, member.last_moved + away);
  }
}

bool Roster::AllHaveView(Generation generation) const {
  return std::ranges::all_of(members_, [generation](const auto& entry) {
    const MemberState& member = entry.second;
    const bool counts = member.Is(Role::kServer) || (member.Is(Role::kWorker) && member.ready);
    return !counts || member.generation >= generation;
  });
}

bool Roster::AllToldToStop() const {
  return std::ranges::all_of(
      members_, [](const auto& entry) { return entry.second.told_to_stop || entry.second.Is(Role::kServe); });
}

// ---- questions

std::vector<NodeId> Roster::Servers() const {
  const auto servers = std::views::keys(heartbeat_counts_);
  return {servers.begin(), servers.end()};
}

uint32_t Roster::Staying(Role role) const {
  return static_cast<uint32_t>(std::ranges::count_if(
      members_, [role](const auto& entry) { return entry.second.Is(role) && entry.second.active(); }));
}

const MemberState* Roster::NextStandby() const {
  const MemberState* other = nullptr;
  for (const auto& [node, member] : members_) {
    const bool stands_by = member.Is(Role::kWorker) && member.stands_by();
    if (!stands_by || !member.ready || member.isolated) continue;
    const std::string& wanted = settings_.topology.worker_class;
    if (wanted.empty() || member.place.host_class == wanted) return &member;
    if (other == nullptr) other = &member;
  }
  return other;
}

bool Roster::AnyPlaceKnown() const {
  return std::ranges::any_of(members_,
                             [](const auto& entry) { return entry.second.place != topology::HostPlace(); });
}

std::string Roster::LostServers() const {
  const auto last = std::ranges::find_if(last_departures_.rbegin(), last_departures_.rend(),
                                         [](const auto& gone) { return gone.member.role == Role::kServer; });
  if (!heartbeat_counts_.empty() || last == last_departures_.rend()) return "";
  return "a parameter server: the last one, " + Name(last->member) +
         (last->how == Gone::kLeft   ? ", has left"
          : last->how == Gone::kLost ? ", was lost"
                                     : ", was evicted");
}

void Roster::AddTo(View* view) {
  for (auto& [node, member] : members_) {
    if (!member.Is(Role::kBots)) view->members.push_back(member.member);
    if (!member.shown) member.shown = view->generation;
  }
}

// ---- status

MemberRows Roster::rows() const {
  MemberRows rows;
  for (const auto& [node, member] : evicted_) {
    if (Stuck(member)) rows.stuck_evicted.push_back({member.member, member.host, member.pid});
  }
  for (const auto& [node, member] : members_) {
    if (Stuck(member)) rows.stuck.push_back(node);
    for (const NodeId server : member.unreachable) rows.unreachable.emplace_back(node, server);
    if (member.place != topology::HostPlace() || member.round_trip > Duration(0))
      rows.whereabouts.push_back({node, member.place, member.round_trip});
  }
  rows.evictions = evictions_;
  rows.departures.assign(last_departures_.begin(), last_departures_.end());
  AddMisplaced(&rows.misplaced);
  return rows;
}

void Roster::AddMisplaced(std::map<std::string, std::string>* lines) const {
  const topology::TopologySettings& topology = settings_.topology;
  std::vector<topology::HostPlace> servers, workers;
  for (const auto& [node, member] : members_) {
    if (member.Is(Role::kServer)) servers.push_back(member.place);
    if (member.Is(Role::kWorker)) workers.push_back(member.place);
    std::string far = topology::DistanceWarning(topology, Name(member.member), member.round_trip);
    if (!far.empty()) (*lines)["node " + ToString(node)] = std::move(far);
  }
  const auto add = [lines](const std::string& who, const Status& offered) {
    if (!offered.ok()) (*lines)[who] = who + ": " + offered.message();
  };
  topology::TopologySettings of_servers, of_workers;
  of_servers.server_site = topology.server_site;
  of_servers.server_class = topology.server_class;
  of_workers.worker_class = topology.worker_class;
  if (!servers.empty()) add("servers", topology::CheckOffered(of_servers, servers));
  if (!workers.empty()) add("workers", topology::CheckOffered(of_workers, workers));
}

}  // namespace leat::protocol
