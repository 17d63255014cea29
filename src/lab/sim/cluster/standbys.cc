// Coordinators on hosts of their own, each with its own directory: the active one, standbys that follow it,
// and elections. Executes the machines of protocol/succession/.
#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "lab/sim/cluster/cluster_state.h"

namespace leat::sim {

namespace {

constexpr Duration kSilence = std::chrono::seconds(1);      // the coordinator's; a standby's: twice that
constexpr Duration kTurn = std::chrono::milliseconds(300);  // each standby waits so much longer
constexpr Duration kRetry = std::chrono::milliseconds(50);
constexpr Duration kLook = std::chrono::milliseconds(20);

// A record is sent as its number.
Bytes Encode(uint64_t number) {
  Bytes bytes(sizeof(number));
  std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}

uint64_t Decode(const Bytes& bytes) {
  uint64_t number = 0;
  std::memcpy(&number, bytes.data(), sizeof(number));
  return number;
}

// By which a member and another coordinator know the directory at this address.
uint64_t NumberAt(uint32_t address) {
  return 100 + address;
}

}  // namespace

void Cluster::State::StartHosts() {
  StartElected(0, 1, {});
  for (uint32_t address = 1; address <= options.coordinator_standbys; ++address) StartStandby(address);
}

std::shared_ptr<Process> Cluster::State::ProcessAt(uint32_t address) const {
  if (standbys[address] && standbys[address]->alive) return standbys[address];
  if (coordinators[address] && coordinators[address]->alive) return coordinators[address];
  return nullptr;
}

void Cluster::State::StartAt(uint32_t address) {
  const CoordinatorHost& host = hosts[address];
  const bool shared = host.copy || std::ranges::any_of(host.journal, [this](uint64_t number) {
                        return std::holds_alternative<JournalAgreed>(records[number]);
                      });
  if (shared || host.term == 0) return StartStandby(address);
  StartElected(address, host.term + 1, {});
}

// ---- the active coordinator

void Cluster::State::StartElected(uint32_t address, uint64_t term, const std::vector<NodeId>& electors) {
  const bool elected = !electors.empty();
  CoordinatorHost& host = hosts[address];
  if (standbys[address]) standbys[address]->alive = false;
  if (coordinators[address]) coordinators[address]->alive = false;
  host.term = term;
  host.copy = false;
  const auto c = coordinators[address] = std::make_shared<CoordinatorProcess>();
  if (!coordinator || coordinator->term < term) coordinator = c;
  c->address = address;
  c->term = term;
  CoordinatorConfig config = Config();
  config.term = term;
  config.take_over = config.keep_scale = true;
  RecoveredState restored;
  Electorate electorate(ElectorRole());
  bool marked = false;
  for (const uint64_t number : host.journal) {
    restored.journal.push_back(records[number]);
    electorate.OnRecord(0, records[number]);
    marked = marked || std::holds_alternative<JournalAgreed>(records[number]);
  }
  if (elected) electorate.OnAgreedElectors(electors);
  if (!host.manifests.empty()) {
    restored.manifest = host.manifests.rbegin()->second;
    restored.last_checkpoint = restored.manifest->id;
  }
  c->replication.emplace(ReplicationConfig{.term = term,
                                           .coordinator = NumberAt(address),
                                           .elected = elected,
                                           .marked = marked,
                                           .silence = 2 * kSilence},
                         std::move(electorate));
  if (restored.manifest) c->replication->OnCheckpoint(restored.manifest->id);
  // All of its journal is agreed as soon as it may act.
  for (const uint64_t number : host.journal) c->disagreed.emplace_back(0, number);
  try {
    c->machine = std::make_unique<Coordinator>(std::move(config), std::move(restored));
  } catch (const std::invalid_argument& e) {
    c->alive = false;
    return Violate(Invariant::kRestored, e.what());
  }
  if (elected) {
    ++result.elections;
    // Nothing is done before a majority knows it.
    c->position = c->replication->Append(now(), {}, {});
  }
  if (LateLabels()) {
    c->labels.emplace(Mix(Mix(options.seed, 1), term), options.stream.late_labels);
    c->labels->Start(c->machine->label_marks());
  }
  Tick(c);
  if (c->alive && !c->ended) Poll(c);
}

void Cluster::State::AppendOwn(const CoordinatorPtr& c, JournalRecord record) {
  const uint64_t number = records.size();
  records.push_back(std::move(record));
  hosts[c->address].journal.push_back(number);
  const Bytes encoded[] = {Encode(number)};
  c->position = c->replication->Append(now(), std::span(&records.back(), 1), encoded);
  c->disagreed.emplace_back(c->position, number);
}

void Cluster::State::DoAgreed(const CoordinatorPtr& c, CoordinatorActions actions) {
  for (CoordinatorAction& action : actions) {
    if (!c->alive || c->ended) return;
    if (auto* journal = std::get_if<AppendJournal>(&action)) {
      const auto* set = std::get_if<ScaleSet>(&journal->record);
      const auto scale = set ? std::optional(*set) : std::nullopt;
      AppendOwn(c, std::move(journal->record));
      // It is noted between the replies before it and those behind it.
      if (scale) c->waiting.emplace_back(c->position, AppendJournal{*scale});
    } else if (std::holds_alternative<ConfirmTerm>(action)) {
      // Nothing waits for that of a timer.
      if (&action != &actions.back()) c->position = c->replication->Append(now(), {}, {});
    } else {
      c->waiting.emplace_back(c->position, std::move(action));
    }
    if (Chance(options.faults.crash_between_actions)) return KillAt(c->address, Between(10, 3000));
  }
  Flush(c);
}

// A record is acted on.
void Cluster::State::Observe(const CoordinatorProcess& c, uint64_t number) {
  if (!acted_on.insert(number).second) return;
  if (c.term < acted_term) {
    Violate(Invariant::kOneCoordinator, "record " + std::to_string(number) + " of term " +
                                            std::to_string(c.term) +
                                            " is acted on, and the coordinator of term " +
                                            std::to_string(acted_term) + " does not have it");
  }
  const JournalRecord& record = records[number];
  disk.Observe(record);
  NoteRecord(record);
}

// Executes agreed actions.
void Cluster::State::Flush(const CoordinatorPtr& c) {
  if (c->flushing) return;
  c->flushing = true;
  JournalReplication& replication = *c->replication;
  while (c->alive && !c->ended) {
    if (replication.replaced_by()) {
      c->waiting.clear();
      for (CoordinatorAction& action :
           c->machine->OnReplaced(Status(Code::kStale, "another coordinator was elected")))
        Act(c, action);
      break;
    }
    for (auto& [call, reply] : replication.TakeReplies()) {
      if (auto at = c->calls.extract(call)) at.mapped()(std::move(reply));
    }
    if (replication.TakeSnapshotWanted()) {
      Bytes frames;
      for (const uint64_t number : hosts[c->address].journal)
        JournalReplication::AppendFrame(Encode(number), &frames);
      replication.OnSnapshot(now(), std::move(frames));
    }
    if (auto marker = replication.TakeMarker()) AppendOwn(c, std::move(*marker));
    if (replication.founded()) {
      for (; !c->disagreed.empty() && c->disagreed.front().first <= replication.agreed();
           c->disagreed.pop_front()) {
        const auto [position, number] = c->disagreed.front();
        Observe(*c, number);
        const auto* set = std::get_if<ScaleSet>(&records[number]);
        if (position == 0 && set) NoteAgreedPause(*set);
      }
      acted_term = std::max(acted_term, c->term);
    }
    result.sets = std::max(result.sets, replication.set().epoch);
    if (c->waiting.empty()) break;
    // Once the members are gone, nobody can be told which coordinators are left.
    const bool over = c->over_since && now() - *c->over_since > std::chrono::seconds(10);
    if (c->waiting.front().first > replication.agreed() && !over) break;
    CoordinatorAction action = std::move(c->waiting.front().second);
    c->waiting.pop_front();
    Act(c, action);
  }
  c->flushing = false;
}

void Cluster::State::OnFollow(const CoordinatorPtr& c, uint64_t call, const FollowRequest& request) {
  if (const Status good = c->replication->OnFollow(now(), call, request); !good.ok()) {
    if (auto at = c->calls.extract(call)) at.mapped()(Refusal{good});
  }
  Flush(c);
}

void Cluster::State::NoteElector(const CoordinatorPtr& c, uint64_t call, ControlRequest* request) {
  const ElectorState* state = ElectorOf(*request);
  if (state == nullptr) return;
  c->electors[call] = *state;
  c->replication->OnElector(now(), NodeOf(*request), *state);
  Flush(c);
  if (!c->alive || c->ended || (c->waiting.empty() && c->replication->founded())) return;
  const auto set = c->replication->SetFor(*state);
  if (!set) return;
  // It hears of the set before the journal is agreed, and of nothing else.
  auto at = c->calls.extract(call);
  const auto answer = [&](auto reply) {
    reply.term = c->term;
    reply.coordinators = set;
    reply.waiting = true;
    at.mapped()(std::move(reply));
  };
  auto* const worker = std::get_if<WorkerHeartbeat>(request);
  if (worker == nullptr) return answer(ServerHeartbeatReply());
  worker->leases_wanted = 0;
  answer(WorkerHeartbeatReply());
}

void Cluster::State::Stamp(CoordinatorProcess* c, uint64_t call, ControlReply* reply) {
  const auto state = c->electors.extract(call);
  if (state.empty()) return;
  const auto set = c->replication->SetFor(state.mapped());
  if (auto* worker = std::get_if<WorkerHeartbeatReply>(reply)) worker->coordinators = set;
  if (auto* server = std::get_if<ServerHeartbeatReply>(reply)) server->coordinators = set;
}

CheckpointOrder Cluster::State::PrepareCheckpointOf(const CoordinatorProcess& c, uint64_t id) {
  return disk.Prepare(id, c.replication ? std::to_string(c.address) + "/" : "");
}

bool Cluster::State::CommitCheckpointOf(const CoordinatorProcess& c, const Manifest& manifest) {
  if (!c.replication) return disk.Commit(c.term, manifest);
  hosts[c.address].manifests[manifest.id] = manifest;
  coordinators[c.address]->replication->OnCheckpoint(manifest.id);
  // A superseded coordinator's checkpoint is not durable.
  if (c.term >= acted_term) disk.Commit(c.term, manifest);
  return true;
}

// ---- standbys

void Cluster::State::StartStandby(uint32_t address) {
  if (standbys[address]) standbys[address]->alive = false;
  if (coordinators[address]) coordinators[address]->alive = false;
  const CoordinatorHost& host = hosts[address];
  const auto s = standbys[address] = std::make_shared<StandbyProcess>();
  s->address = address;
  s->calls = (address + 1) % (1 + options.coordinator_standbys);
  s->heard = now();
  s->journal.emplace(NumberAt(address), host.term);
  for (const uint64_t number : host.journal) {
    if (!s->electorate) s->electorate.emplace(ElectorRole());
    s->electorate->OnRecord(0, records[number]);
    s->complete = s->complete || std::holds_alternative<JournalAgreed>(records[number]);
  }
  Follow(s);
}

void Cluster::State::Follow(const StandbyPtr& s) {
  if (s->calls == s->address) s->calls = (s->address + 1) % (1 + options.coordinator_standbys);
  const auto& manifests = hosts[s->address].manifests;
  const uint64_t checkpoint = manifests.empty() ? 0 : manifests.rbegin()->first;
  Call(s, s->journal->MakeRequest(checkpoint), [this, s](const std::optional<ControlReply>& reply) {
    if (!s->alive || done) return;
    const auto* follow = reply ? std::get_if<FollowReply>(&*reply) : nullptr;
    follow != nullptr ? OnFollowReply(s, *follow) : OnMissed(s);
  });
}

void Cluster::State::OnFollowReply(const StandbyPtr& s, const FollowReply& reply) {
  CoordinatorHost& host = hosts[s->address];
  const auto received = s->journal->OnReply(reply);
  if (!received.ok() || received->term < host.term ||
      (received->term == host.term && !host.copy && host.term > 0))
    return OnMissed(s);
  s->heard = now();
  s->candidate.reset();
  // The disk takes its time, and the process may die before the records are on it.
  ScheduleIn(s, Between(0, 2), [this, s, received = *received, reply] {
    CoordinatorHost& its = hosts[s->address];
    if (received.anew) {
      its.journal.clear();
      its.term = received.term;
      its.copy = true;
      s->electorate.emplace(ElectorRole());
      s->complete = false;
    }
    for (size_t i = 0; i < received.records.size(); ++i) {
      const uint64_t number = Decode(received.records[i]);
      its.journal.push_back(number);
      s->electorate->OnRecord(received.ends[i], records[number]);
    }
    s->journal->OnSynced();
    if (s->electorate) {
      if (s->journal->began()) s->electorate->OnAgreed(reply.agreed);
      s->complete = s->complete || reply.in_set;
      CopyCheckpoint(s, reply);
    }
    Follow(s);
  });
}

void Cluster::State::CopyCheckpoint(const StandbyPtr& s, const FollowReply& reply) {
  auto& mine = hosts[s->address].manifests;
  if (s->copying || reply.checkpoint == 0 || mine.contains(reply.checkpoint)) return;
  const uint32_t from = s->calls;
  const auto& theirs = hosts[from].manifests;
  const auto at = theirs.find(reply.checkpoint);
  if (at == theirs.end()) return;
  s->copying = true;
  ScheduleIn(s, Duration(std::chrono::milliseconds(20)) + 3 * DiskTakes(), [this, s, manifest = at->second] {
    s->copying = false;
    Manifest copy = manifest;
    copy.directory = std::to_string(s->address) + "/checkpoint-" + std::to_string(copy.id);
    if (disk.CopyFiles(manifest.directory, copy.directory)) hosts[s->address].manifests[copy.id] = copy;
  });
}

void Cluster::State::OnMissed(const StandbyPtr& s) {
  const CoordinatorHost& host = hosts[s->address];
  if (s->complete && s->electorate && !s->candidate && now() - s->heard >= kSilence + s->address * kTurn) {
    s->candidate.emplace(CandidateConfig{.coordinator = NumberAt(s->address),
                                         .founder = !host.copy,
                                         .term = host.term,
                                         .seed = Mix(options.seed, static_cast<uint64_t>(now().count())),
                                         .defer = std::chrono::milliseconds(500)},
                         *s->electorate);
    WatchElection(s);
  }
  ScheduleIn(s, kRetry, [this, s] { Follow(s); });
}

void Cluster::State::WatchElection(const StandbyPtr& s) {
  if (!s->candidate) return;
  s->candidate->OnTimer(now());
  if (s->candidate->excluded()) {
    s->candidate.reset();
    s->complete = false;
    return;
  }
  if (const auto term = s->candidate->elected())
    return StartElected(s->address, *term, s->electorate->agreed());
  ScheduleIn(s, kLook, [this, s] { WatchElection(s); });
}

ControlReply Cluster::State::AnswerAsStandby(const StandbyPtr& s, const ControlRequest& request) {
  const Refusal standby{Status(Code::kUnavailable, "this is a standby")};
  if (!s->candidate) return standby;
  if (const auto* promise = std::get_if<Promise>(&request)) {
    s->candidate->OnPromise(*promise);
    return PromiseReply{s->candidate->term()};
  }
  const ElectorState* state = ElectorOf(request);
  if (state == nullptr) return standby;
  const auto candidacy =
      s->candidate->OnCall(now(), true, NodeOf(request), protocol::TermOf(request), *state);
  if (!candidacy) return standby;
  return *candidacy;
}

// ---- faults

void Cluster::State::KillAt(uint32_t address, Duration absent) {
  const auto process = ProcessAt(address);
  if (!process) return;
  process->alive = false;
  ++result.restarts;
  queue.After(absent, [this, address] {
    if (!ProcessAt(address) && !done) StartAt(address);
  });
}

// An elector may die, and a majority stays: there are enough, and all are alive and known to the coordinator.
bool Cluster::State::ElectorsAreWhole() const {
  const auto& c = coordinator;
  if (!c->alive || c->ended || now() < c->paused_until || !c->replication->founded()) return false;
  const View view = c->machine->status().view;
  const auto all = All(ElectorRole());
  const auto known = std::ranges::count(view.members, ElectorRole(), &Member::role);
  const Electorate& electorate = c->replication->electorate();
  const std::vector<NodeId> electors = electorate.newest();
  if (!electorate.Settled() || (!electorate.Empty() && electors.size() < 3)) return false;
  return all.size() >= 3 && static_cast<size_t>(known) == all.size() &&
         c->replication->agreed() == c->position &&
         std::ranges::all_of(electors, [&](NodeId node) { return view.Find(node) != nullptr; }) &&
         std::ranges::all_of(all,
                             [&](const ProcessPtr& p) { return p->joined && view.Find(p->node) != nullptr; });
}

void Cluster::State::InjectStandbyFault() {
  queue.After(FromSeconds(rng.Exponential(Seconds(options.faults.fault_interval))), [this] {
    if (!Faulty() || done) return;
    InjectStandbyFault();
    const uint32_t count = 1 + options.coordinator_standbys;
    const uint32_t address = rng.Chance(0.5) ? coordinator->address : static_cast<uint32_t>(rng.Below(count));
    const auto process = ProcessAt(address);
    const double longest = std::max(2500., Seconds(options.faults.longest_pause) * 1e3);
    const double what = rng.Uniform();
    if (what < 0.25) {
      KillAt(address, Between(10, rng.Chance(0.3) ? 10000 : 2000));
    } else if (what < 0.45) {
      if (process) Pause(process.get(), Between(10, longest));
    } else if (what < 0.60) {
      // The network between two coordinators.
      const auto other = static_cast<uint32_t>((address + 1 + rng.Below(count - 1)) % count);
      const Time until = now() + Between(100, 5000);
      if (process) process->cut_from_until[other] = until;
      if (const auto there = ProcessAt(other)) there->cut_from_until[address] = until;
    } else if (what < 0.75) {
      // A part of the members loses one of them.
      const Time until = now() + Between(100, 4000);
      for (const ProcessPtr& p : roles) {
        if (p && rng.Chance(0.5)) p->cut_from_until[address] = until;
      }
    } else if (what < 0.85) {
      if (auto p = Any(rng.Chance(0.5) ? Role::kWorker : ElectorRole())) Pause(p.get(), Between(10, 1500));
    } else if (const Role role = rng.Chance(0.5) ? Role::kWorker : ElectorRole();
               role != ElectorRole() || ElectorsAreWhole()) {
      if (auto p = Any(role)) Kill(p, true);
    } else {
      Tell({.kind = AdminRequest::Kind::kCheckpoint});
    }
  });
}

}  // namespace leat::sim
