// Coordinators on hosts of their own, each with its own directory.
//
// A coordinator acts on a record, and on whatever follows it, once its standbys have agreed to it. Invariant
// (kSuccessionOneCoordinator): no coordinator acts on a record after one of a later term, which lacks it, has
// acted on any. Directories survive the processes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "lab/sim/succession/coordinator_processes.h"
#include "protocol/coordinator/coordinator.h"

namespace leat::sim {

// Contents of a coordinator's directory.
struct OwnDirectory {
  std::vector<uint64_t> journal;  // numbers of records
  uint64_t term = 0;              // the highest that it knows
  bool copy = false;              // copy of another coordinator's
  std::map<uint64_t, protocol::Manifest> manifests;
};

// The number by which a member and another coordinator know the directory at this address.
constexpr uint64_t DirectoryNumber(uint32_t address) {
  return 100 + address;
}
// A silent coordinator is replaced after this time; a silent standby is dropped after twice that.
constexpr Duration kCoordinatorSilence = std::chrono::seconds(1);

class CoordinatorHosts : Concern {
 public:
  using Concern::Concern;

  OwnDirectory& directory(uint32_t address) { return directories_[address]; }
  const protocol::JournalRecord& record(uint64_t number) const { return records_[number]; }
  // The highest term whose coordinator has acted on a record.
  uint64_t acted_term() const { return acted_term_; }

  void StartAll();
  // The process at this address starts: what it is depends on its directory.
  void StartAt(uint32_t address);
  // `electors`: of a coordinator that was elected, those that it knows to be agreed.
  void StartElected(uint32_t address, uint64_t term, const std::vector<NodeId>& electors);
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

  uint64_t restarts() const { return restarts_; }
  uint64_t elections() const { return elections_; }
  uint64_t sets() const { return sets_; }

 private:
  void Append(const CoordinatorPtr& c, protocol::JournalRecord record);
  void ActOn(const CoordinatorProcess& c, uint64_t number);
  // Executes agreed actions.
  void Flush(const CoordinatorPtr& c);

  std::array<OwnDirectory, kAddresses> directories_;
  std::vector<protocol::JournalRecord> records_;  // records of all journals, by number
  std::set<uint64_t> acted_on_;                   // numbers of records
  uint64_t acted_term_ = 0;
  uint64_t restarts_ = 0;   // coordinators and standbys that died and start again
  uint64_t elections_ = 0;  // coordinators that the members have elected
  uint64_t sets_ = 0;       // sets of coordinators that a majority of the members has learned
};

}  // namespace leat::sim
