// Coordinators on hosts of their own, each with its own directory: an active one and standbys.
//
// A standby copies the journal and the checkpoints of the coordinator that it takes for the active one, and
// stands for election when that is silent. It may win only with a directory that was complete at some time.
//
// A coordinator acts on a record, and on whatever follows it, once its standbys have agreed to it. Invariant
// (kSuccessionOneCoordinator): no coordinator acts on a record after one of a later term, which lacks it, has
// acted on any. Directories survive the processes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "lab/sim/succession/coordinator_processes.h"
#include "protocol/coordinator/coordinator.h"
#include "protocol/succession/candidate.h"
#include "protocol/succession/followed_journal.h"

namespace leat::sim {

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
