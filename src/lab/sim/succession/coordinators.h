// The coordinators of a virtual cluster, and the calls to them: each process drives one machine, and executes
// its actions.
//
// At most one process per address is alive. With a shared directory, the newest one has the highest term of
// the disk; others may not know yet that they are replaced. With directories of their own, actions wait until
// they are agreed (CoordinatorHosts). A coordinator may crash between any two of its actions.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lab/sim/leases/lease_check.h"
#include "lab/sim/members/role_process.h"
#include "protocol/coordinator/coordinator.h"
#include "protocol/messages_control.h"
#include "protocol/succession/election.h"
#include "protocol/succession/replication.h"

namespace leat::sim {

// The journal of a coordinator with a directory of its own, as far as its standbys have yet to agree.
struct OwnJournal {
  OwnJournal(const protocol::ReplicationConfig& config, protocol::Electorate electorate)
      : replication(config, std::move(electorate)) {}

  protocol::JournalReplication replication;
  std::deque<std::pair<uint64_t, protocol::CoordinatorAction>> waiting;  // for this position to be agreed
  std::deque<std::pair<uint64_t, uint64_t>> disagreed;                   // records, by position
  uint64_t position = 0;                                          // position of the last appended record
  std::unordered_map<uint64_t, protocol::ElectorState> electors;  // by call
  bool flushing = false;
  std::optional<Time> over_since;  // its machine has ended
};

struct CoordinatorProcess : Process {
  uint64_t term = 0;
  uint32_t address = 0;
  std::unique_ptr<protocol::Coordinator> machine;
  std::optional<LabelStream> labels;  // the job's late labels, as this process joins them
  std::unordered_map<uint64_t, std::function<void(protocol::ControlReply)>> calls;
  bool ended = false;
  std::optional<OwnJournal> own;  // with a directory of its own

  bool active() const { return alive && !ended; }
  void Answer(uint64_t call, protocol::ControlReply reply) {
    if (auto at = calls.extract(call)) at.mapped()(std::move(reply));
  }
};

using CoordinatorPtr = std::shared_ptr<CoordinatorProcess>;

class CoordinatorProcesses : Concern {
 public:
  using Concern::Concern;

  const CoordinatorPtr& newest() const { return newest_; }
  const CoordinatorPtr& At(uint32_t address) const { return at_[address]; }
  protocol::CoordinatorStatus status() const { return newest_->machine->status(); }
  // Phase, lag and leases, for messages of violations.
  std::string DescribeProgress() const;

  // Starts one with the shared directory. `take_over`: the members may be alive.
  void Start(uint32_t address, bool take_over);
  // A new process at an address, in place of the one there.
  CoordinatorPtr Replace(uint32_t address, uint64_t term);
  // Lets a new process work, once it has its machine.
  void StartTimers(const CoordinatorPtr& c);
  protocol::CoordinatorConfig Config() const;
  // The process at an address ends, if there is one.
  void Stop(uint32_t address);
  // The newest one dies. Another one starts after a while, unless the job was resumed meanwhile.
  void Kill(Duration absent, uint32_t next_address);
  void Kill();
  // A later one has taken over, and it knows.
  void OnReplaced(const CoordinatorPtr& c);

  void OnRequest(const CoordinatorPtr& c, uint64_t call, protocol::ControlRequest request);
  void ScheduleAlarm();
  void Execute(const CoordinatorPtr& c, protocol::CoordinatorActions actions);
  void Execute(const CoordinatorPtr& c, protocol::CoordinatorAction& action);
  // A record is acted on.
  void OnRecord(const protocol::JournalRecord& record);
  // Checks that a member does not follow a coordinator of an earlier term than before.
  void CheckTerm(uint64_t before, uint64_t now);

 private:
  void OnTick(const CoordinatorPtr& c);
  void PollStream(const CoordinatorPtr& c);
  std::vector<protocol::StreamRange> Ranges(CoordinatorProcess* c);
  void ExecuteEnd(const CoordinatorPtr& c, const protocol::JobEnded& ended);
  // Whether the whole stream is in the newest checkpoint.
  bool Complete() const;

  CoordinatorPtr newest_;
  // By address. A member that gets no answer at one calls the next.
  std::array<CoordinatorPtr, kAddresses> at_;
};

// Calls of the control plane: from a process to the coordinator, or standby, that it takes for the newest.
//
// Every call is answered exactly once: with the reply, or with none if it was lost or late, or nobody was
// there. A process that is not answered tries the next address.
class ControlCalls : Concern {
 public:
  using Concern::Concern;

  void Call(const std::shared_ptr<Process>& from, protocol::ControlRequest request,
            std::function<void(std::optional<protocol::ControlReply>)> answer);

  // ---- a person's commands
  // Sends a command once.
  void Tell(const protocol::AdminRequest& command) {
    Call(Admin(), command, [](const auto&) {});
  }
  // Pauses the job, and continues it after a while. The person repeats both commands until they are answered.
  void PauseJob(Duration lasts);

 private:
  void Repeat(protocol::AdminRequest::Kind kind, std::function<void()> then);
  // A process that calls the newest coordinator.
  std::shared_ptr<Process> Admin() const;

  uint64_t last_call_ = 0;
};

// ---- coordinators on hosts of their own

// Contents of a coordinator's directory.
struct OwnDirectory {
  std::vector<uint64_t> journal;  // numbers of records
  uint64_t term = 0;              // the highest that it knows
  bool copy = false;              // copy of another coordinator's
  std::map<uint64_t, protocol::Manifest> manifests;
};

struct StandbyProcess : Process {
  uint32_t address = 0;
  std::optional<protocol::FollowedJournal> journal;
  std::optional<protocol::Electorate> electorate;
  std::optional<protocol::Candidate> candidate;  // while it stands for election
  bool complete = false;                         // it has been in the set
  Time heard{0};                                 // an answer of the coordinator
  bool copying = false;
};

using StandbyPtr = std::shared_ptr<StandbyProcess>;

// Coordinators on hosts of their own, each with its own directory: an active one and standbys.
//
// A standby copies the journal and the checkpoints of the coordinator that it takes for the active one, and
// stands for election when that is silent. It may win only with a directory that was complete at some time.
//
// A coordinator acts on a record, and on whatever follows it, once its standbys have agreed to it. Invariant
// (kSuccessionOneCoordinator): no coordinator acts on a record after one of a later term, which lacks it, has
// acted on any. Directories survive the processes.
class CoordinatorHosts : Concern {
 public:
  using Concern::Concern;

  // The highest term whose coordinator has acted on a record.
  uint64_t acted_term() const { return acted_term_; }

  void StartAll();
  // The process at this address starts: what it is depends on its directory.
  void StartAt(uint32_t address);
  // The coordinator or standby at this address; null if there is none.
  std::shared_ptr<Process> ProcessAt(uint32_t address) const;
  // It dies, and starts again after a while.
  void KillAt(uint32_t address, Duration absent);

  // ---- the active coordinator
  void OnTick(const CoordinatorPtr& c);
  // Actions wait until everything before them is agreed.
  void Execute(const CoordinatorPtr& c, protocol::CoordinatorActions actions);
  void OnJournalRequest(const CoordinatorPtr& c, uint64_t call, const protocol::FollowRequest& request);
  // Tells replication of an elector, and answers it at once while nothing else may be.
  void OnElector(const CoordinatorPtr& c, uint64_t call, protocol::ControlRequest* request);
  // Adds the set of coordinators to a reply to an elector.
  void AddCoordinators(CoordinatorProcess* c, uint64_t call, protocol::ControlReply* reply);
  void CommitManifest(const CoordinatorProcess& c, const protocol::Manifest& manifest);

  // ---- standbys
  const StandbyPtr& StandbyAt(uint32_t address) const { return standbys_[address]; }
  protocol::ControlReply Answer(const StandbyPtr& s, const protocol::ControlRequest& request);

 private:
  // `electors`: of a coordinator that was elected, those that it knows to be agreed.
  void StartElected(uint32_t address, uint64_t term, const std::vector<NodeId>& electors);
  void Append(const CoordinatorPtr& c, protocol::JournalRecord record);
  void ActOn(const CoordinatorProcess& c, uint64_t number);
  // Executes agreed actions.
  void Flush(const CoordinatorPtr& c);
  void StartStandby(uint32_t address);
  // The standby at an address ends, if there is one.
  void StopStandby(uint32_t address);
  void CopyJournal(const StandbyPtr& s);
  void OnJournalReply(const StandbyPtr& s, const protocol::FollowReply& reply);
  void CopyCheckpoint(const StandbyPtr& s, const protocol::FollowReply& reply);
  void OnMissed(const StandbyPtr& s);
  void WatchElection(const StandbyPtr& s);

  std::array<OwnDirectory, kAddresses> directories_;
  std::vector<protocol::JournalRecord> records_;  // records of all journals, by number
  std::set<uint64_t> acted_on_;                   // numbers of records
  uint64_t acted_term_ = 0;
  std::array<StandbyPtr, kAddresses> standbys_;  // by address
};

}  // namespace leat::sim
