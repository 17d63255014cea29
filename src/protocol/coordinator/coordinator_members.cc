// Membership, placement of slices, and heartbeats.
#include <algorithm>
#include <ranges>
#include <utility>
#include <vector>

#include "base/encoding/hex.h"
#include "protocol/coordinator/coordinator_state.h"

namespace leat::protocol {

namespace {

// The limit of leases per request.
constexpr uint32_t kMaxLeases = 64;
// The limit of cuts made ahead.
constexpr size_t kMaxAhead = 1024;

}  // namespace

void Coordinator::State::On(Time now, uint64_t call, const JoinRequest& request) {
  const auto reject = [&](Code code, std::string why) {
    JoinReply reply;
    reply.status = Status(code, std::move(why));
    Answer(call, std::move(reply));
  };
  if (ending >= Ending::kStoppingMembers) return reject(Code::kAborted, "the job is over");
  const std::string who = "this " + std::string(Name(request.role));
  if (!config.version.empty() && request.version != config.version) {
    return reject(Code::kFailedPrecondition, who + " is version \"" + request.version +
                                                 "\", the coordinator is version \"" + config.version + "\"");
  }
  if (config.job_hash != 0 && request.job_hash != 0 && request.job_hash != config.job_hash) {
    return reject(Code::kFailedPrecondition, who + " was started for job " + ToHex(request.job_hash) +
                                                 ", the coordinator has job " + ToHex(config.job_hash));
  }
  if (request.role > Role::kServe) {
    return reject(Code::kInvalidArgument, "a " + std::string(Name(request.role)) + " cannot join");
  }
  if (request.role == Role::kServer) {
    if (AllReduce()) {
      return reject(Code::kFailedPrecondition, "the job has no servers: with strategy " +
                                                   std::string(Name(config.strategy.kind)) +
                                                   " every worker has all parameters");
    }
  }
  const bool called =
      request.role == Role::kServer || request.role == Role::kFeed || request.role == Role::kCoordinator;
  if (called && request.address.empty())
    return reject(Code::kInvalidArgument, "a " + std::string(Name(request.role)) + " needs an address");

  if (request.role == Role::kWorker && AllReduce() && request.address.empty()) {
    return reject(Code::kInvalidArgument, "a worker without servers needs an address");
  }
  if (request.standby && (request.role != Role::kWorker || config.strategy.mpi)) {
    return reject(Code::kFailedPrecondition,
                  config.strategy.mpi ? "no worker can stand by: with MPI all take part from the start"
                                      : "a " + std::string(Name(request.role)) + " cannot stand by");
  }
  const bool by_mpi = request.role == Role::kWorker && config.strategy.mpi;
  if (by_mpi) {
    if (const Status good = CheckMpiRank(request); !good.ok()) return reject(good.code(), good.message());
  }
  if (const Status good = CheckReachable(request); !good.ok()) return reject(good.code(), good.message());
  const Result<topology::HostPlace> place = CheckPlace(request);
  if (!place.ok()) return reject(place.status().code(), place.status().message());
  if (const Status good = ReplaceFormerSelf(now, request); !good.ok())
    return reject(good.code(), good.message());

  MemberState member;
  const bool stands_by = StandsBy(request, *place);
  member.member = {NextNode(), request.role,
                   by_mpi ? request.mpi->rank : LowestFreeIndex(request.role, stands_by), request.address};
  if (stands_by) SetState(&member, Member::State::kStandby);
  member.host = request.host;
  member.pid = request.pid;
  member.process = request.process;
  member.network = request.network;
  member.place = *place;
  member.round_trip = request.round_trip;
  member.last_seen = member.last_moved = now;
  JournalMember(member);
  JoinReply reply;
  reply.term = config.term;
  reply.node = member.member.node;
  reply.index = member.member.index;
  reply.job = config.job;
  reply.heartbeat_interval = config.heartbeat_interval;
  reply.heartbeat_timeout = config.heartbeat_timeout;
  members[reply.node] = std::move(member);
  if (request.role == Role::kServer) {
    heartbeat_counts[reply.node] = {};
    servers_changed = true;
  }
  if (request.role != Role::kBots) view_changed = true;
  Answer(call, std::move(reply));
}

Coordinator::State::MemberState* Coordinator::State::Seen(Time now, NodeId node, Role role) {
  const auto at = members.find(node);
  if (at == members.end() || at->second.member.role != role) return nullptr;
  at->second.last_seen = at->second.last_moved = now;
  return &at->second;
}

// Tells a member to stop that is not known, or any once the job stops its members.
template <class Reply>
bool Coordinator::State::ToldToStop(MemberState* member, Reply* reply) const {
  reply->stop = ending == Ending::kStoppingMembers;
  reply->evicted = !member && !reply->stop;
  if (member && reply->stop) member->told_to_stop = true;
  return reply->stop || reply->evicted;
}

void Coordinator::State::On(Time now, uint64_t call, const WorkerHeartbeat& heartbeat) {
  WorkerHeartbeatReply reply;
  reply.term = config.term;
  MemberState* member = Seen(now, heartbeat.node, Role::kWorker);
  if (ToldToStop(member, &reply)) return Answer(call, std::move(reply));
  if (heartbeat.term != config.term) return Answer(call, std::move(reply));
  OnReturned(now, heartbeat.node, heartbeat.claims);
  if (!std::exchange(member->ready, true)) OnWorkerReady(now, *member);
  Queue().OnHeartbeat(now, heartbeat.node, heartbeat.waiting);
  if (publications.enabled())
    publications.OnWorker(now, heartbeat.node, heartbeat.unsent, heartbeat.rescoring);
  for (uint64_t lease : heartbeat.released) Queue().Release(now, lease, heartbeat.node, heartbeat_counts);
  if (heartbeat.leaving) {
    Remove(now, heartbeat.node, Gone::kLeft);
    reply.stop = true;
    return Answer(call, std::move(reply));
  }
  reply.drain = member->member.state == Member::State::kDraining;
  if (AllReduce()) {
    member->generation = std::max(member->generation, heartbeat.generation);
    if (heartbeat.member_report) OnMemberReport(now, heartbeat, &reply);
    GrantRescores(now, heartbeat, &reply);
    RefreshView();
    if (heartbeat.generation != view->generation) reply.view = view;
    return Answer(call, std::move(reply));
  }
  if (Stepped()) rounds.OnProgress(now, heartbeat.node, heartbeat.progress);
  Isolate(now, heartbeat.node, heartbeat.unreachable);
  reply.revoked = Queue().Reconcile(now, heartbeat.node, heartbeat.held);
  if (reply.revoked.empty()) member->generation = std::max(member->generation, heartbeat.generation);
  // Nothing is leased any more but what only some of the slices have trained.
  const bool evens = stop_requested && ending == Ending::kFinalCheckpoint && (Stepped() || !pending);
  if ((ending == Ending::kDraining || ending == Ending::kFinalCheckpoint) && !evens) {
    reply.revoked = heartbeat.held;
  } else if (member->isolated || member->member.state != Member::State::kActive) {
    // Its leases are others' until it can push again, or once it has left; or it stands by.
  } else if (evens && !Stepped()) {
    GrantUneven(now, heartbeat.node, heartbeat.leases_wanted, &reply.leases);
  } else if (!Stepped()) {
    GrantLeases(now, heartbeat.node, heartbeat.leases_wanted, &reply.leases);
  } else if (heartbeat.leases_wanted > 0 || !heartbeat.held.empty()) {
    GrantLanes(now, heartbeat.node, &reply.leases);
  }
  GrantRescores(now, heartbeat, &reply);
  RefreshView();
  // Before the slices are back, it would stop training.
  if (heartbeat.generation != view->generation && !slices.returning()) reply.view = view;
  Answer(call, std::move(reply));
}

// A worker that cannot reach a server which another worker reaches loses its leases, so that nobody waits for
// it. If no worker reaches the server, or the coordinator has not heard from it lately, the server is what is
// missing, and leases stay where they are: others will only find out later.
void Coordinator::State::Isolate(Time now, NodeId worker, const std::vector<NodeId>& unreachable) {
  MemberState& member = members.at(worker);
  member.unreachable.clear();
  for (NodeId server : unreachable) {
    const auto at = members.find(server);
    if (at != members.end() && at->second.member.role == Role::kServer) member.unreachable.push_back(server);
  }
  const bool isolated = std::ranges::any_of(member.unreachable, [&](NodeId server) {
    const bool silent =
        awaited.contains(server) || now - members.at(server).last_seen > 2 * config.heartbeat_interval;
    if (silent && !member.isolated) return false;
    return std::ranges::any_of(members, [&](const auto& entry) {
      const auto& [node, other] = entry;
      return node != worker && other.member.role == Role::kWorker &&
             other.member.state != Member::State::kStandby &&
             std::ranges::count(other.unreachable, server) == 0;
    });
  });
  if (isolated == member.isolated) return;
  member.isolated = isolated;
  if (isolated) Queue().Reclaim(now, worker);
  view_changed = true;
}

void Coordinator::State::GrantLeases(Time now, NodeId worker, uint32_t wanted, std::vector<Lease>* leases) {
  if (!slices.ready() || scale.paused) return;
  if (!config.partition_places.empty()) splits.SetWorkerPlace(worker, members.at(worker).place);
  wanted = std::min(wanted, kMaxLeases);
  while (leases->size() < wanted) {
    const size_t demand = wanted - leases->size();
    const size_t ahead = std::min(demand + 2 * splits.leased(), kMaxAhead);
    CutsMade made;
    if (splits.FreeFor(worker) == 0) {
      const size_t own = splits.free();  // splits that are overdue at this worker, so it cannot have them
      made.cuts = splits.CutMore(now, demand + own, ahead + own);
      if (made.cuts.empty()) return;
    } else if (!splits.HasOwn(worker)) {
      made.cuts = splits.CutAhead(now, ahead);
    }
    if (!made.cuts.empty()) JournalCuts(std::move(made));
    if (auto lease = splits.Grant(now, NextId(), worker, slices)) leases->push_back(std::move(*lease));
  }
}

void Coordinator::State::GrantUneven(Time now, NodeId worker, uint32_t wanted, std::vector<Lease>* leases) {
  if (!slices.ready()) return;
  while (leases->size() < std::min(wanted, kMaxLeases)) {
    auto lease = splits.GrantUneven(now, NextId(), worker, slices);
    if (!lease) return;
    leases->push_back(std::move(*lease));
  }
}

void Coordinator::State::GrantRescores(Time now, const WorkerHeartbeat& heartbeat,
                                       WorkerHeartbeatReply* reply) {
  if (!publications.enabled() || !heartbeat.can_rescore || ending != Ending::kNone) return;
  if (members.at(heartbeat.node).member.state != Member::State::kActive) return;
  const auto next_id = [this] { return NextId(); };
  if (auto lease = publications.Grant(now, heartbeat.node, slices.Watermarks(), next_id))
    reply->rescores.push_back(std::move(*lease));
}

void Coordinator::State::GrantLanes(Time now, NodeId worker, std::vector<Lease>* leases) {
  if (!slices.ready()) return;
  MakeRounds(now);
  while (auto lease = rounds.Grant(now, worker, slices, [this] { return NextId(); })) {
    leases->push_back(std::move(*lease));
  }
}

void Coordinator::State::On(Time now, uint64_t call, const ServerHeartbeat& heartbeat) {
  const bool knows_term = heartbeat.term == config.term;
  // A step that no slice can have is rejected, together with the whole report.
  if (const Status steps = Stepped() && knows_term ? slices.CheckFirstSteps(heartbeat) : Status();
      !steps.ok()) {
    return Answer(call, Refusal{steps});
  }
  ServerHeartbeatReply reply;
  reply.term = config.term;
  MemberState* member = Seen(now, heartbeat.node, Role::kServer);
  if (ToldToStop(member, &reply)) return Answer(call, std::move(reply));
  // It reports what the former coordinator does not know yet.
  if (!knows_term) return Answer(call, std::move(reply));
  OnReturned(now, heartbeat.node, {});
  if (heartbeat.leaving) BeginDraining(member);
  if (heartbeat.leaving && MayLeave(heartbeat.node)) {
    Remove(now, heartbeat.node, Gone::kLeft);
    reply.stop = true;
    return Answer(call, std::move(reply));
  }
  if (LacksMoved(heartbeat)) {
    Evict(now, heartbeat.node);
    reply.evicted = true;
    return Answer(call, std::move(reply));
  }
  heartbeat_counts[heartbeat.node].Add(heartbeat);
  member->generation = heartbeat.generation;
  member->version = heartbeat.version;
  OnLostReplicas(heartbeat);
  settled = settled && slices.ready();
  const auto stop_job = [&](const Status& why) {
    StopMembers(now, why);
    reply.stop = member->told_to_stop = true;
    Answer(call, std::move(reply));
  };
  const Result<bool> changed = slices.Report(heartbeat, Servers());
  if (!changed.ok() && !Suspect(changed.status())) return stop_job(changed.status());
  if (changed.ok() && *changed) view_changed = true;
  if (slices.TakeOutdated() && Stepped()) {
    slices.RestoreAll();
    rounds.Rollback(slices.Version());
  }
  traffic.OnReport(now, heartbeat.node, heartbeat.traffic);
  OnMoveReports(now, heartbeat);
  // A replica that takes a lost server's place may have made them ready before this report.
  if (slices.ready() && !std::exchange(settled, true)) {
    replicas_changed = true;
    Queue().Reconsider(now, slices);
  }
  Queue().OnServerReport(now, slices, heartbeat_counts);
  if (heartbeat.shard) OnShard(now, heartbeat.node, *heartbeat.shard);
  if (heartbeat.consecutive_rejected >= std::max(config.max_consecutive_rejected, 1u))
    return stop_job(Rejected(heartbeat));

  PlaceSlices(now);
  RefreshView();
  if (heartbeat.generation != view->generation) reply.view = view;
  if (cursors.started()) reply.start = cursors.start();
  reply.orders = slices.OrdersFor(heartbeat.node);
  AddMoves(now, heartbeat.node, &reply);
  reply.report = heartbeat.report;
  reply.part = heartbeat.part;
  reply.checkpoint = CheckpointOrderFor(heartbeat.node);
  Answer(call, std::move(reply));
}

void Coordinator::State::On(Time now, uint64_t call, const BotsHeartbeat& heartbeat) {
  BotsHeartbeatReply reply;
  reply.term = config.term;
  reply.standbys = view->standbys();
  MemberState* member = Seen(now, heartbeat.node, Role::kBots);
  (void)ToldToStop(member, &reply);
  if (member && heartbeat.term == config.term) OnReturned(now, heartbeat.node, {});
  // Finished bots leave by themselves; nobody waits for them.
  if (member && heartbeat.done) Remove(now, heartbeat.node, Gone::kLeft);
  Answer(call, reply);
}

void Coordinator::State::On(Time now, uint64_t call, const FeedHeartbeat& heartbeat) {
  FeedHeartbeatReply reply;
  reply.term = config.term;
  reply.standbys = view->standbys();
  MemberState* member = Seen(now, heartbeat.node, Role::kFeed);
  reply.stop = ending == Ending::kStoppingMembers || (member && heartbeat.leaving);
  reply.evicted = !member && !reply.stop;
  if (member) member->told_to_stop = reply.stop;
  if (heartbeat.term != config.term && !reply.stop) return Answer(call, std::move(reply));
  if (publications.enabled() && awaited.contains(heartbeat.node))
    view_changed = publications.Adopt(heartbeat.node, heartbeat.publishers) || view_changed;
  if (member) OnReturned(now, heartbeat.node, {});
  reply.drain = member && member->member.state == Member::State::kDraining;
  if (member && heartbeat.leaving) Remove(now, heartbeat.node, Gone::kLeft);
  if (publications.enabled() && member && !reply.stop) {
    OnPublishers(now, heartbeat.node, heartbeat.publishers);
    reply.publish = publications.OrdersFor(heartbeat.node);
  }
  Answer(call, std::move(reply));
}

void Coordinator::State::On(Time now, uint64_t call, const ServeHeartbeat& heartbeat) {
  ServeHeartbeatReply reply;
  reply.term = config.term;
  MemberState* member = Seen(now, heartbeat.node, Role::kServe);
  reply.stop = ending == Ending::kStoppingMembers || (member && heartbeat.leaving);
  reply.evicted = !member && !reply.stop;
  if (member) member->told_to_stop = reply.stop;
  if (heartbeat.term != config.term && !reply.stop) return Answer(call, std::move(reply));
  if (member) OnReturned(now, heartbeat.node, {});
  reply.drain = member && member->member.state == Member::State::kDraining;
  if (member && heartbeat.leaving) Remove(now, heartbeat.node, Gone::kLeft);
  if (member && !reply.stop) {
    RefreshView();
    if (heartbeat.generation != view->generation) reply.view = view;
  }
  Answer(call, std::move(reply));
}

void Coordinator::State::OnPublishers(Time now, NodeId feed, const std::vector<PublisherReport>& reports) {
  const Status good = publications.OnReports(feed, reports);
  if (!good.ok() && ending != Ending::kStoppingMembers) StopMembers(now, good);
}

// Feeds that are members come first: they may be on other hosts than the coordinator, which has enough to do.
void Coordinator::State::AssignPublishers() {
  if (!publications.enabled() || Awaits(Role::kFeed)) return;
  std::vector<NodeId> feeds;
  for (const auto& [node, member] : members) {
    if (member.member.role == Role::kFeed) feeds.push_back(node);
  }
  if (feeds.empty() && !config.feeds.empty()) feeds.push_back(NodeId());
  if (publications.Assign(feeds, [this] { return NextId(); })) view_changed = true;
}

void Coordinator::State::JournalMember(const MemberState& its) {
  journals.push_back({MemberJoined{its.member, its.host, its.pid, its.process, its.network, its.place}});
}

void Coordinator::State::JournalCuts(CutsMade made) {
  if (publications.enabled()) {
    for (const Cut& cut : made.cuts) publications.OnCut(cut);
  }
  journals.push_back({std::move(made)});
}

void Coordinator::State::JournalCuts(RoundMade made) {
  if (publications.enabled()) {
    for (const RoundMade::Lane& lane : made.lanes) publications.OnCut(lane.cut);
  }
  journals.push_back({std::move(made)});
}

void Coordinator::State::On(Time, uint64_t call, const JobRequest& request) {
  JobReply reply;
  if (!config.version.empty() && request.version != config.version) {
    reply.status =
        Status(Code::kFailedPrecondition, "this program is version \"" + request.version +
                                              "\", the coordinator is version \"" + config.version + "\"");
    return Answer(call, std::move(reply));
  }
  reply.job = config.job;
  reply.feeds = config.feeds;
  for (const auto& [node, member] : members) {
    if (member.member.role == Role::kFeed) reply.feeds.push_back(member.member.address);
  }
  Answer(call, std::move(reply));
}

void Coordinator::State::On(Time now, uint64_t call, const KeepAlive& keep_alive) {
  KeepAliveReply reply;
  reply.standbys = view->standbys();
  const bool here = members.contains(keep_alive.node);
  reply.stop = ending == Ending::kStoppingMembers;
  reply.evicted = !here && !reply.stop;
  auto& known = here ? members : evicted;
  if (const auto at = known.find(keep_alive.node); at != known.end()) {
    MemberState& member = at->second;
    member.last_seen = now;
    if (keep_alive.round_trip > Duration(0)) member.round_trip = keep_alive.round_trip;
    const bool standby = member.member.role == Role::kCoordinator;  // these are all that it sends
    if (member.progress != keep_alive.progress || standby) member.last_moved = now;
    member.progress = keep_alive.progress;
    if (standby) member.told_to_stop = reply.stop;
    reply.known = here && standby && member.shown && AllHaveView(*member.shown);
  }
  Answer(call, std::move(reply));
}

bool Coordinator::State::AllHaveView(Generation generation) const {
  return std::ranges::all_of(members, [generation](const auto& entry) {
    const MemberState& its = entry.second;
    const Role role = its.member.role;
    return !(role == Role::kServer || (role == Role::kWorker && its.ready)) || its.generation >= generation;
  });
}

void Coordinator::State::Remove(Time now, NodeId node, Gone how) {
  const Role role = members.at(node).member.role;
  NoteDeparture(members.at(node), how);
  if (members.at(node).member.state == Member::State::kStandby) --standing_by;
  members.erase(node);
  journals.push_back({MembersLeft{{node}}});
  StopAwaiting(now, node, role);
  if (role == Role::kBots) return;
  view_changed = true;
  if (role == Role::kFeed || role == Role::kCoordinator || role == Role::kServe) return;
  if (publications.enabled() && role == Role::kWorker) publications.Reclaim(node);
  if (AllReduce()) {
    member_pace.Forget(node);
    return groups.Remove(now, node, how == Gone::kLeft);
  }
  Queue().Reclaim(now, node);
  heartbeat_counts.erase(node);
  if (role == Role::kServer) {
    servers_changed = true;
    moves.Forget(node);
    slices.ForgetParts(node);
  }
  if (role != Role::kServer || !LoseServer(now, node)) return;
  orphans_since[node] = now;
  if (!Stepped()) return;
  // Its slices would be older than the others; in stepped strategies all slices must be at the same step.
  slices.RestoreAll();
  rounds.Rollback(slices.Version());
}

void Coordinator::State::Evict(Time now, NodeId node) {
  evicted[node] = members.at(node);
  Remove(now, node, Gone::kEvicted);
  ++evictions;
}

void Coordinator::State::NoteDeparture(const MemberState& member, Gone how) {
  if (how == Gone::kLost && member.told_to_stop) how = Gone::kLeft;
  if (last_departures.size() == CoordinatorStatus::kDepartures) last_departures.pop_front();
  last_departures.push_back({.number = ++departures, .member = member.member, .how = how});
}

void Coordinator::State::EvictSilent(Time now) {
  std::vector<NodeId> silent;
  for (const auto& [node, member] : members) {
    if (now - member.last_seen > config.heartbeat_timeout) silent.push_back(node);
  }
  // The first to become silent may be the cause for the others.
  std::ranges::stable_sort(silent, {}, [this](NodeId node) { return members.at(node).last_seen; });
  for (NodeId node : silent) Evict(now, node);
  std::erase_if(evicted,
                [&](const auto& entry) { return now - entry.second.last_seen > config.heartbeat_timeout; });
}

void Coordinator::State::FreeOverdue(Time now) {
  if (!AllReduce()) return Queue().FreeOverdue(now);
  // The other members wait for it, and its part of a step cannot be given to them.
  for (uint64_t node : member_pace.Overdue(now)) {
    if (!members.contains(NodeId(node))) continue;
    Evict(now, NodeId(node));
    ++overdue_members;
  }
}

void Coordinator::State::PlaceSlices(Time now) {
  if (AllReduce()) return StepGroups(now);
  if (!cursors.started() || (slices.placed() && orphans_since.empty())) return;
  std::vector<NodeId> servers = Servers();
  const std::set<NodeId> elsewhere = Elsewhere();
  if (!slices.placed()) {
    const size_t wanted = std::max(config.servers, 1u);
    if (servers.size() < wanted) return;
    std::erase_if(servers, [&](NodeId server) { return elsewhere.contains(server); });
    // Some of those that are wanted may be about to join in the same site.
    if (!servers_came) servers_came = now;
    if (servers.empty() || (servers.size() < wanted && now - *servers_came < config.server_wait)) return;
    // Server 0 of the placement is the one displayed as ps 0.
    std::ranges::sort(servers, {}, [this](NodeId server) { return members.at(server).member.index; });
    servers.resize(std::min(servers.size(), wanted));
    const auto assignment = Place(config.table, PlacementOn(servers), static_cast<uint32_t>(servers.size()));
    if (!assignment.ok()) return StopMembers(now, assignment.status());
    slices.PlaceAll(servers, *assignment);
    NoteSite();
    servers_changed = false;
    view_changed = true;
    return;
  }
  std::erase_if(servers, [&](NodeId server) { return elsewhere.contains(server); });
  // Servers that leave, or are excluded from the placement, take over slices only if there is no other
  // server.
  const auto unwilling = [this](NodeId server) { return !Takes(server); };
  if (!std::ranges::all_of(servers, unwilling)) std::erase_if(servers, unwilling);
  for (NodeId former : slices.Orphaned()) {
    // A spare of another site has to wait: servers of this site may come back.
    const auto spare =
        LeavesSite() ? servers.end()
                     : std::ranges::find_if(servers, [&](NodeId server) { return !slices.Holds(server); });
    if (spare != servers.end()) {
      slices.Adopt(former, {*spare});
    } else if (!servers.empty() && now - orphans_since[former] >= config.server_wait) {
      slices.Adopt(former, servers);
    } else {
      continue;
    }
    orphans_since.erase(former);
    view_changed = true;
  }
}

void Coordinator::State::RefreshView() {
  if (!view_changed) return;
  view_changed = false;
  View& fresh = view.emplace();
  fresh.generation = Generation(NextId());
  for (auto& [node, member] : members) {
    if (member.member.role != Role::kBots) fresh.members.push_back(member.member);
    if (!member.shown) member.shown = fresh.generation;
  }
  fresh.slices = slices.Locations();
  for (size_t p = 0; publications.enabled() && p < config.partitions.size(); ++p) {
    const auto publisher = publications.PublisherOf(p);
    std::string& address = fresh.publishers.emplace_back();
    if (!publisher) continue;
    if (*publisher == NodeId()) {
      address = config.feeds[0];
    } else if (const auto member = members.find(*publisher); member != members.end()) {
      address = member->second.member.address;
    }
  }
  ShareLanes();
}

// The reason to end the job after too many consecutive non-finite gradients; ok otherwise.
Status Coordinator::State::Rejected(const ServerHeartbeat& heartbeat) const {
  std::string why = std::to_string(heartbeat.consecutive_rejected) + " gradients in a row were not finite";
  const std::string advice = "; lower the learning rate, or set clip_norm in the optimizer";
  if (!heartbeat.rejected) return Status(Code::kFailedPrecondition, why + advice);
  const auto& [node, cut, run] = *heartbeat.rejected;
  const auto member = members.find(node);
  why += ": the last by worker ";
  if (member != members.end()) why += std::to_string(member->second.member.index) + " ";
  why += "(node " + ToString(node) + ")";
  if (cut.valid() && run < cut.runs()) {
    std::vector<uint32_t> order;
    TrainingOrder(cut, &order);
    const auto first = order.begin() + static_cast<std::ptrdiff_t>(uint64_t{run} * cut.run * cut.batch_size);
    const auto [least, most] =
        std::minmax_element(first, first + static_cast<std::ptrdiff_t>(cut.EventsOf(run)));
    why += ", partition " + std::to_string(cut.partition) + " offsets " +
           std::to_string(cut.begin.offset + *least) + " to " + std::to_string(cut.begin.offset + *most + 1);
  }
  return Status(Code::kFailedPrecondition, why + advice);
}

uint32_t Coordinator::State::LowestFreeIndex(Role role, bool standby) const {
  // There is one index more than members, so at least one is free.
  std::vector<bool> taken(members.size() + 1);
  for (const auto& [node, member] : members) {
    const bool stands_by = member.member.state == Member::State::kStandby;
    const bool counts = member.member.role == role && stands_by == standby;
    if (counts && member.member.index < taken.size()) taken[member.member.index] = true;
  }
  return static_cast<uint32_t>(std::ranges::find(taken, false) - taken.begin());
}

std::vector<NodeId> Coordinator::State::Servers() const {
  const auto its = std::views::keys(heartbeat_counts);
  return {its.begin(), its.end()};
}

}  // namespace leat::protocol
