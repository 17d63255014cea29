// Who elects the coordinators of a job: its servers, or its workers if it has no servers.
//
// The members change by records of the journal, and a coordinator does not always know how many of its
// records are agreed (JournalReplication). So several electorates may be at the end of its journal, from the
// agreed one on. A majority is a majority of each of them. All coordinators of a set have every agreed
// record, in the same order; any two of them have the last agreed electorate in common, and so any two
// majorities have a member in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "base/ids.h"
#include "protocol/coordinator/coordinator.h"

namespace leat::protocol {

class Electorate {
 public:
  // Nobody yet. `role`: kServer or kWorker.
  explicit Electorate(Role role) : role_(role) {}

  // The next record of the journal, which ends at `position` of it. True: it changes who elects.
  bool OnRecord(uint64_t position, const JournalRecord& record);
  // All records before `position` are agreed.
  void OnAgreed(uint64_t position);
  // All records so far count as one, at position 0.
  void Collapse();
  // Positions begin anew, and no record is known to be agreed.
  void Rebase();

  // False if one of the electorates is empty.
  bool Majority(const std::function<bool(NodeId)>& has) const;
  bool Empty() const;                                     // one of them
  bool Settled() const { return versions_.size() == 1; }  // the agreed one is the current one
  bool Contains(NodeId node) const;                       // one of them
  std::vector<NodeId> agreed() const;
  // The slices have been placed, or there has been a group: members hold something of the job.
  bool placed() const { return placed_; }

 private:
  struct Version {
    uint64_t position = 0;  // of the record by which it began
    std::set<NodeId> nodes;
  };

  Role role_;
  std::vector<Version> versions_ = std::vector<Version>(1);  // ascending; the first is the agreed one
  bool placed_ = false;
};

}  // namespace leat::protocol
