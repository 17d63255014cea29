// A coordinator that continues where a former one has stopped: from its checkpoint and journal alone, or
// while the members go on.
//
// If members go on, it takes them, the places of slices and the group from the journal. Members keep their
// nodes: workers go on with their leases, servers with their slices, a group with its steps. Each member
// learns of the new term by the answer to its next heartbeat, and then says all that it holds.
//
// Invariants:
// - Until all workers of the former coordinator have said what they hold, or are evicted, no cut of the
//   journal is leased, because one of them may hold it. New cuts are leased as soon as all slices are
//   reported.
// - In stepped strategies all slices go back together, or none does.
// - Members that do not go on are journaled as left, so that no later coordinator awaits them.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <vector>

#include "protocol/checkpoints/checkpoints.h"
#include "protocol/members/roster.h"
#include "protocol/predictions/predictions.h"
#include "protocol/records/journal.h"
#include "protocol/scaling/scale.h"
#include "protocol/succession/succession_settings.h"

namespace leat::protocol {

struct RestoredJournal;

// The concerns, from the bottom to the top, for those who carry out in one what follows from another.
struct Concerns {
  Outbox& outbox;
  Roster& roster;
  ReturningMembers& returning;
  WorkerSlots& slots;
  SlicePlacement& placement;
  SliceTransfers& transfers;
  Leases& leases;
  MemberGroups& groups;
  Checkpoints& checkpoints;
  Predictions& predictions;
  Scale& scale;
};

class Succession {
 public:
  Succession(const SuccessionSettings& settings, const Concerns& concerns)
      : settings_(settings), to_(concerns) {}

  // Throws std::invalid_argument if the state contradicts itself or the job.
  void Restore(RecoveredState state);
  // A member has reached this coordinator, with these leases of the former one.
  void OnReturned(Time now, NodeId node, const std::vector<LeaseClaim>& claims);
  // A member has returned, or is gone.
  void StopAwaiting(Time now, NodeId node, Role role);

 private:
  void RestoreStream(const RestoredJournal& journal, bool has_checkpoint);
  void TakeOver(const RestoredJournal& journal);

  const SuccessionSettings& settings_;
  Concerns to_;
};

}  // namespace leat::protocol
