#include "lab/sim/succession/standby_processes.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lab/sim/cluster/concerns.h"

namespace leat::sim {

using namespace protocol;

namespace {

constexpr Duration kElectionStagger = std::chrono::milliseconds(300);  // each standby waits so much longer
constexpr Duration kJournalRetry = std::chrono::milliseconds(50);
constexpr Duration kElectionInterval = std::chrono::milliseconds(20);

// A record is sent as its number.
uint64_t Decode(const Bytes& bytes) {
  uint64_t number = 0;
  std::memcpy(&number, bytes.data(), sizeof(number));
  return number;
}

}  // namespace

void StandbyProcesses::Stop(uint32_t address) {
  if (at_[address]) at_[address]->alive = false;
}

void StandbyProcesses::Start(uint32_t address) {
  Stop(address);
  all_.coordinators.Stop(address);
  const OwnDirectory& directory = all_.hosts.directory(address);
  const auto s = at_[address] = std::make_shared<StandbyProcess>();
  s->address = address;
  s->contact = (address + 1) % (1 + options_.coordinator_standbys);
  s->heard = now();
  s->journal.emplace(DirectoryNumber(address), directory.term);
  for (const uint64_t number : directory.journal) {
    if (!s->electorate) s->electorate.emplace(world_.ElectorRole());
    s->electorate->OnRecord(0, all_.hosts.record(number));
    s->complete = s->complete || std::holds_alternative<JournalAgreed>(all_.hosts.record(number));
  }
  CopyJournal(s);
}

void StandbyProcesses::CopyJournal(const StandbyPtr& s) {
  if (s->contact == s->address) s->contact = (s->address + 1) % (1 + options_.coordinator_standbys);
  const auto& manifests = all_.hosts.directory(s->address).manifests;
  const uint64_t checkpoint = manifests.empty() ? 0 : manifests.rbegin()->first;
  all_.calls.Call(s, s->journal->MakeRequest(checkpoint),
                  [this, s](const std::optional<ControlReply>& reply) {
                    if (!s->alive || world_.done) return;
                    const auto* copied = reply ? std::get_if<FollowReply>(&*reply) : nullptr;
                    copied != nullptr ? OnJournalReply(s, *copied) : OnMissed(s);
                  });
}

void StandbyProcesses::OnJournalReply(const StandbyPtr& s, const FollowReply& reply) {
  OwnDirectory& directory = all_.hosts.directory(s->address);
  const auto received = s->journal->OnReply(reply);
  if (!received.ok() || received->term < directory.term ||
      (received->term == directory.term && !directory.copy && directory.term > 0))
    return OnMissed(s);
  s->heard = now();
  s->candidate.reset();
  // The disk takes its time, and the process may die before the records are on it.
  ScheduleIn(s, Between(0, 2), [this, s, received = *received, reply] {
    OwnDirectory& mine = all_.hosts.directory(s->address);
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
      s->electorate->OnRecord(received.ends[i], all_.hosts.record(number));
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

void StandbyProcesses::CopyCheckpoint(const StandbyPtr& s, const FollowReply& reply) {
  auto& mine = all_.hosts.directory(s->address).manifests;
  if (s->copying || reply.checkpoint == 0 || mine.contains(reply.checkpoint)) return;
  const uint32_t from = s->contact;
  const auto& theirs = all_.hosts.directory(from).manifests;
  const auto at = theirs.find(reply.checkpoint);
  if (at == theirs.end()) return;
  s->copying = true;
  ScheduleIn(s, Duration(std::chrono::milliseconds(20)) + 3 * DiskTakes(), [this, s, manifest = at->second] {
    s->copying = false;
    Manifest copy = manifest;
    copy.directory = std::to_string(s->address) + "/checkpoint-" + std::to_string(copy.id);
    if (all_.disk.CopyFiles(manifest.directory, copy.directory))
      all_.hosts.directory(s->address).manifests[copy.id] = copy;
  });
}

void StandbyProcesses::OnMissed(const StandbyPtr& s) {
  const OwnDirectory& directory = all_.hosts.directory(s->address);
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

void StandbyProcesses::WatchElection(const StandbyPtr& s) {
  if (!s->candidate) return;
  s->candidate->OnTimer(now());
  if (s->candidate->excluded()) {
    s->candidate.reset();
    s->complete = false;
    return;
  }
  if (const auto term = s->candidate->elected())
    return all_.hosts.StartElected(s->address, *term, s->electorate->agreed());
  ScheduleIn(s, kElectionInterval, [this, s] { WatchElection(s); });
}

ControlReply StandbyProcesses::Answer(const StandbyPtr& s, const ControlRequest& request) {
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
