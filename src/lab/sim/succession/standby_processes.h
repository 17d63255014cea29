// Standbys: coordinators with directories of their own that are not active.
//
// A standby copies the journal and the checkpoints of the coordinator that it takes for the active one, and
// stands for election when that is silent. It may win only with a directory that was complete at some time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "lab/sim/members/role_process.h"
#include "protocol/succession/election.h"
#include "protocol/succession/replication.h"

namespace leat::sim {

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

class StandbyProcesses : Concern {
 public:
  using Concern::Concern;

  const StandbyPtr& At(uint32_t address) const { return at_[address]; }
  void Start(uint32_t address);
  // The process at an address ends, if there is one.
  void Stop(uint32_t address);
  protocol::ControlReply Answer(const StandbyPtr& s, const protocol::ControlRequest& request);

 private:
  void CopyJournal(const StandbyPtr& s);
  void OnJournalReply(const StandbyPtr& s, const protocol::FollowReply& reply);
  void CopyCheckpoint(const StandbyPtr& s, const protocol::FollowReply& reply);
  void OnMissed(const StandbyPtr& s);
  void WatchElection(const StandbyPtr& s);

  std::array<StandbyPtr, kAddresses> at_;  // by address
};

}  // namespace leat::sim
