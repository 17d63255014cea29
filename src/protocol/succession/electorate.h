// The electors of a job's coordinators: some of its servers, or of its workers if it has no servers.
//
// Their number is odd (JournalReplication): a majority of 2n is one more than of 2n - 1, and bears as many
// losses.
//
// Electors are named by records of the journal (JournalAgreed), the next ones only once the record before is
// agreed (JournalReplication), and once more when theirs is. A coordinator does not always know that, so
// there may be two electorates at the end of its journal, and a majority is a majority of both. All
// coordinators of a set have every agreed record, in the same order; any two of them have the last agreed
// electorate in common, and so any two majorities have a member in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "base/ids.h"
#include "protocol/records/journal.h"

namespace leat::protocol {

// The role whose members elect in a job with this strategy.
inline Role ElectorRole(const StrategyConfig& strategy) {
  return strategy.on_servers() ? Role::kServer : Role::kWorker;
}

class Electorate {
 public:
  // Nobody yet. `role`: kServer or kWorker.
  explicit Electorate(Role role) : role_(role) {}

  // The next record of the journal, which ends at `position` of it.
  void OnRecord(uint64_t position, const JournalRecord& record);
  // All records before `position` are agreed.
  void OnAgreed(uint64_t position);
  // These electors are known to be agreed.
  void OnAgreedElectors(const std::vector<NodeId>& electors);
  // Positions begin anew, and no record is known to be agreed.
  void Rebase();

  // False if there is no electorate.
  bool Majority(const std::function<bool(NodeId)>& has) const;
  bool Empty() const { return versions_.front().nodes.empty(); }
  bool Settled() const { return versions_.size() == 1; }  // the agreed one is the current one
  bool Contains(NodeId node) const;                       // as an elector of any version
  std::vector<NodeId> agreed() const;
  std::vector<NodeId> newest() const;

  // Members of the role, whether they are electors or not.
  const std::set<NodeId>& joined() const { return joined_; }
  // The slices have been placed, or there has been a group: members hold something of the job.
  bool placed() const { return placed_; }

 private:
  struct Version {
    uint64_t position = 0;  // position of the record by which it began
    std::set<NodeId> nodes;
  };

  Role role_;
  std::vector<Version> versions_ = std::vector<Version>(1);  // ascending; the first is the agreed one
  std::set<NodeId> joined_;
  bool placed_ = false;
};

}  // namespace leat::protocol
