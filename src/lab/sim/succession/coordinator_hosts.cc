#include "lab/sim/succession/coordinators.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "lab/sim/cluster/concerns.h"

namespace leat::sim {

using namespace protocol;

namespace {

// A silent coordinator is replaced after this time; a silent standby is dropped after twice that.
constexpr Duration kCoordinatorSilence = std::chrono::seconds(1);
constexpr Duration kElectionStagger = std::chrono::milliseconds(300);  // each standby waits so much longer
constexpr Duration kJournalRetry = std::chrono::milliseconds(50);
constexpr Duration kElectionInterval = std::chrono::milliseconds(20);

// The number by which a member and another coordinator know the directory at this address.
constexpr uint64_t DirectoryNumber(uint32_t address) {
  return 100 + address;
}

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

}  // namespace

void CoordinatorHosts::StartAll() {
  StartElected(0, 1, {});
  for (uint32_t address = 1; address <= options_.coordinator_standbys; ++address) StartStandby(address);
}

std::shared_ptr<Process> CoordinatorHosts::ProcessAt(uint32_t address) const {
  if (standbys_[address] && standbys_[address]->alive) return standbys_[address];
  if (all_.coordinators.At(address) && all_.coordinators.At(address)->alive)
    return all_.coordinators.At(address);
  return nullptr;
}

void CoordinatorHosts::StartAt(uint32_t address) {
  const OwnDirectory& directory = directories_[address];
  const bool shared = directory.copy || std::ranges::any_of(directory.journal, [this](uint64_t number) {
                        return std::holds_alternative<JournalAgreed>(records_[number]);
                      });
  if (shared || directory.term == 0) return StartStandby(address);
  StartElected(address, directory.term + 1, {});
}

void CoordinatorHosts::StartElected(uint32_t address, uint64_t term, const std::vector<NodeId>& electors) {
  const bool elected = !electors.empty();
  OwnDirectory& directory = directories_[address];
  StopStandby(address);
  directory.term = term;
  directory.copy = false;
  const CoordinatorPtr c = all_.coordinators.Replace(address, term);
  CoordinatorConfig config = all_.coordinators.Config();
  config.term = term;
  config.take_over = config.keep_scale = true;
  RecoveredState restored;
  Electorate electorate(world_.ElectorRole());
  bool marked = false;
  for (const uint64_t number : directory.journal) {
    restored.journal.push_back(records_[number]);
    electorate.OnRecord(0, records_[number]);
    marked = marked || std::holds_alternative<JournalAgreed>(records_[number]);
  }
  if (elected) electorate.OnAgreedElectors(electors);
  if (!directory.manifests.empty()) {
    restored.manifest = directory.manifests.rbegin()->second;
    restored.last_checkpoint = restored.manifest->id;
  }
  c->own.emplace(ReplicationConfig{.term = term,
                                   .coordinator = DirectoryNumber(address),
                                   .elected = elected,
                                   .marked = marked,
                                   .silence = 2 * kCoordinatorSilence},
                 std::move(electorate));
  if (restored.manifest) c->own->replication.OnCheckpoint(restored.manifest->id);
  // All of its journal is agreed as soon as it may act.
  for (const uint64_t number : directory.journal) c->own->disagreed.emplace_back(0, number);
  try {
    c->machine = std::make_unique<Coordinator>(std::move(config), std::move(restored));
  } catch (const std::invalid_argument& e) {
    c->alive = false;
    return Violate(Invariant::kSuccessionRestored, e.what());
  }
  if (elected) {
    ++result_.elections;
    // Nothing is done before a majority knows it.
    c->own->position = c->own->replication.Append(now(), {}, {});
  }
  all_.coordinators.StartTimers(c);
}

void CoordinatorHosts::OnTick(const CoordinatorPtr& c) {
  if (c->machine->next_timer() == Time::max() && !c->own->over_since) c->own->over_since = now();
  c->own->replication.OnTimer(now());
  Flush(c);
}

void CoordinatorHosts::Append(const CoordinatorPtr& c, JournalRecord record) {
  const uint64_t number = records_.size();
  records_.push_back(std::move(record));
  directories_[c->address].journal.push_back(number);
  const Bytes encoded[] = {Encode(number)};
  c->own->position = c->own->replication.Append(now(), std::span(&records_.back(), 1), encoded);
  c->own->disagreed.emplace_back(c->own->position, number);
}

void CoordinatorHosts::Execute(const CoordinatorPtr& c, CoordinatorActions actions) {
  for (CoordinatorAction& action : actions) {
    if (!c->active()) return;
    if (auto* journal = std::get_if<AppendJournal>(&action)) {
      const auto* set = std::get_if<ScaleSet>(&journal->record);
      const auto scale = set ? std::optional(*set) : std::nullopt;
      Append(c, std::move(journal->record));
      // It is noted between the replies before it and those behind it.
      if (scale) c->own->waiting.emplace_back(c->own->position, AppendJournal{*scale});
    } else if (std::holds_alternative<ConfirmTerm>(action)) {
      // Nothing waits for that of a timer.
      if (&action != &actions.back()) c->own->position = c->own->replication.Append(now(), {}, {});
    } else {
      c->own->waiting.emplace_back(c->own->position, std::move(action));
    }
    if (Chance(options_.faults.crash_between_actions)) return KillAt(c->address, Between(10, 3000));
  }
  Flush(c);
}

void CoordinatorHosts::ActOn(const CoordinatorProcess& c, uint64_t number) {
  if (!acted_on_.insert(number).second) return;
  if (c.term < acted_term_) {
    Violate(Invariant::kSuccessionOneCoordinator, "record " + std::to_string(number) + " of term " +
                                                      std::to_string(c.term) +
                                                      " is acted on, and the coordinator of term " +
                                                      std::to_string(acted_term_) + " does not have it");
  }
  const JournalRecord& record = records_[number];
  all_.disk.Observe(record);
  all_.coordinators.OnRecord(record);
}

void CoordinatorHosts::Flush(const CoordinatorPtr& c) {
  if (c->own->flushing) return;
  c->own->flushing = true;
  JournalReplication& replication = c->own->replication;
  while (c->active()) {
    if (replication.replaced_by()) {
      c->own->waiting.clear();
      for (CoordinatorAction& action :
           c->machine->OnReplaced(Status(Code::kStale, "another coordinator was elected")))
        all_.coordinators.Execute(c, action);
      break;
    }
    for (auto& [call, reply] : replication.TakeReplies()) c->Answer(call, std::move(reply));
    if (replication.TakeSnapshotWanted()) {
      Bytes frames;
      for (const uint64_t number : directories_[c->address].journal)
        JournalReplication::AppendFrame(Encode(number), &frames);
      replication.OnSnapshot(now(), std::move(frames));
    }
    if (auto marker = replication.TakeMarker()) Append(c, std::move(*marker));
    if (replication.founded()) {
      for (; !c->own->disagreed.empty() && c->own->disagreed.front().first <= replication.agreed();
           c->own->disagreed.pop_front()) {
        const auto [position, number] = c->own->disagreed.front();
        ActOn(*c, number);
        const auto* set = std::get_if<ScaleSet>(&records_[number]);
        if (position == 0 && set) all_.lease_check.OnAgreedScale(*set);
      }
      acted_term_ = std::max(acted_term_, c->term);
    }
    result_.sets = std::max(result_.sets, replication.set().epoch);
    if (c->own->waiting.empty()) break;
    // Once the members are gone, nobody can be told which coordinators are left.
    const bool over = c->own->over_since && now() - *c->own->over_since > std::chrono::seconds(10);
    if (c->own->waiting.front().first > replication.agreed() && !over) break;
    CoordinatorAction action = std::move(c->own->waiting.front().second);
    c->own->waiting.pop_front();
    all_.coordinators.Execute(c, action);
  }
  c->own->flushing = false;
}

void CoordinatorHosts::OnJournalRequest(const CoordinatorPtr& c, uint64_t call,
                                        const FollowRequest& request) {
  if (const Status good = c->own->replication.OnFollow(now(), call, request); !good.ok())
    c->Answer(call, Refusal{good});
  Flush(c);
}

void CoordinatorHosts::OnElector(const CoordinatorPtr& c, uint64_t call, ControlRequest* request) {
  const ElectorState* state = ElectorOf(*request);
  if (state == nullptr) return;
  c->own->electors[call] = *state;
  c->own->replication.OnElector(now(), NodeOf(*request), *state);
  Flush(c);
  if (!c->active() || (c->own->waiting.empty() && c->own->replication.founded())) return;
  const auto set = c->own->replication.SetFor(*state);
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

void CoordinatorHosts::AddCoordinators(CoordinatorProcess* c, uint64_t call, ControlReply* reply) {
  const auto state = c->own->electors.extract(call);
  if (state.empty()) return;
  const auto set = c->own->replication.SetFor(state.mapped());
  if (auto* worker = std::get_if<WorkerHeartbeatReply>(reply)) worker->coordinators = set;
  if (auto* server = std::get_if<ServerHeartbeatReply>(reply)) server->coordinators = set;
}

void CoordinatorHosts::CommitManifest(const CoordinatorProcess& c, const Manifest& manifest) {
  directories_[c.address].manifests[manifest.id] = manifest;
  all_.coordinators.At(c.address)->own->replication.OnCheckpoint(manifest.id);
  // A superseded coordinator's checkpoint is not durable.
  if (c.term >= acted_term_) all_.disk.Commit(c.term, manifest);
}

void CoordinatorHosts::KillAt(uint32_t address, Duration absent) {
  const auto process = ProcessAt(address);
  if (!process) return;
  process->alive = false;
  ++result_.restarts;
  queue_.After(absent, [this, address] {
    if (!ProcessAt(address) && !world_.done) StartAt(address);
  });
}

// ---- standbys

void CoordinatorHosts::StopStandby(uint32_t address) {
  if (standbys_[address]) standbys_[address]->alive = false;
}

void CoordinatorHosts::StartStandby(uint32_t address) {
  StopStandby(address);
  all_.coordinators.Stop(address);
  const OwnDirectory& directory = directories_[address];
  const auto s = standbys_[address] = std::make_shared<StandbyProcess>();
  s->address = address;
  s->contact = (address + 1) % (1 + options_.coordinator_standbys);
  s->heard = now();
  s->journal.emplace(DirectoryNumber(address), directory.term);
  for (const uint64_t number : directory.journal) {
    if (!s->electorate) s->electorate.emplace(world_.ElectorRole());
    s->electorate->OnRecord(0, records_[number]);
    s->complete = s->complete || std::holds_alternative<JournalAgreed>(records_[number]);
  }
  CopyJournal(s);
}

void CoordinatorHosts::CopyJournal(const StandbyPtr& s) {
  if (s->contact == s->address) s->contact = (s->address + 1) % (1 + options_.coordinator_standbys);
  const auto& manifests = directories_[s->address].manifests;
  const uint64_t checkpoint = manifests.empty() ? 0 : manifests.rbegin()->first;
  all_.calls.Call(s, s->journal->MakeRequest(checkpoint),
                  [this, s](const std::optional<ControlReply>& reply) {
                    if (!s->alive || world_.done) return;
                    const auto* copied = reply ? std::get_if<FollowReply>(&*reply) : nullptr;
                    copied != nullptr ? OnJournalReply(s, *copied) : OnMissed(s);
                  });
}

void CoordinatorHosts::OnJournalReply(const StandbyPtr& s, const FollowReply& reply) {
  OwnDirectory& directory = directories_[s->address];
  const auto received = s->journal->OnReply(reply);
  if (!received.ok() || received->term < directory.term ||
      (received->term == directory.term && !directory.copy && directory.term > 0))
    return OnMissed(s);
  s->heard = now();
  s->candidate.reset();
  // The disk takes its time, and the process may die before the records are on it.
  ScheduleIn(s, Between(0, 2), [this, s, received = *received, reply] {
    OwnDirectory& mine = directories_[s->address];
    if (received.anew) {
      mine.journal.clear();
      mine.term = received.term;
      mine.copy = true;
      s->electorate.emplace(world_.ElectorRole());
      s->complete = false;
    }
    for (size_t i = 0; i < received.records.size(); ++i) {
      const uint64_t number = Decode(received.records[i]);
      mine.journal.push_back(number);
      s->electorate->OnRecord(received.ends[i], records_[number]);
    }
    s->journal->OnSynced();
    if (s->electorate) {
      if (s->journal->began()) s->electorate->OnAgreed(reply.agreed);
      s->complete = s->complete || reply.in_set;
      CopyCheckpoint(s, reply);
    }
    CopyJournal(s);
  });
}

void CoordinatorHosts::CopyCheckpoint(const StandbyPtr& s, const FollowReply& reply) {
  auto& mine = directories_[s->address].manifests;
  if (s->copying || reply.checkpoint == 0 || mine.contains(reply.checkpoint)) return;
  const uint32_t from = s->contact;
  const auto& theirs = directories_[from].manifests;
  const auto at = theirs.find(reply.checkpoint);
  if (at == theirs.end()) return;
  s->copying = true;
  ScheduleIn(s, Duration(std::chrono::milliseconds(20)) + 3 * DiskTakes(), [this, s, manifest = at->second] {
    s->copying = false;
    Manifest copy = manifest;
    copy.directory = std::to_string(s->address) + "/checkpoint-" + std::to_string(copy.id);
    if (all_.disk.CopyFiles(manifest.directory, copy.directory))
      directories_[s->address].manifests[copy.id] = copy;
  });
}

void CoordinatorHosts::OnMissed(const StandbyPtr& s) {
  const OwnDirectory& directory = directories_[s->address];
  if (s->complete && s->electorate && !s->candidate &&
      now() - s->heard >= kCoordinatorSilence + s->address * kElectionStagger) {
    s->candidate.emplace(CandidateConfig{.coordinator = DirectoryNumber(s->address),
                                         .founder = !directory.copy,
                                         .term = directory.term,
                                         .seed = Mix(options_.seed, static_cast<uint64_t>(now().count())),
                                         .defer = std::chrono::milliseconds(500)},
                         *s->electorate);
    WatchElection(s);
  }
  ScheduleIn(s, kJournalRetry, [this, s] { CopyJournal(s); });
}

void CoordinatorHosts::WatchElection(const StandbyPtr& s) {
  if (!s->candidate) return;
  s->candidate->OnTimer(now());
  if (s->candidate->excluded()) {
    s->candidate.reset();
    s->complete = false;
    return;
  }
  if (const auto term = s->candidate->elected())
    return StartElected(s->address, *term, s->electorate->agreed());
  ScheduleIn(s, kElectionInterval, [this, s] { WatchElection(s); });
}

ControlReply CoordinatorHosts::Answer(const StandbyPtr& s, const ControlRequest& request) {
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

}  // namespace leat::sim
