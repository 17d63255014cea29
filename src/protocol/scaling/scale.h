// How many members the job wants, and whether it trains: as the job, commands, the autoscaler and a pool say.
//
// Invariants:
// - A change of the settings is journaled (ScaleSet) before its command is answered.
// - A pool's grant limits the wanted workers; members beyond it are told to leave, each time that the pool
//   repeats it.
// - A member that was drained by a command is not wanted any more, so none is started in its place.
// - While the job is paused, nothing of the rounds from ScaleSet::begun on has been leased.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "protocol/allreduce/member_groups.h"
#include "protocol/leases/leases.h"
#include "protocol/scaling/scale_settings.h"
#include "protocol/slices/slice_transfers.h"

namespace leat::protocol {

class Scale {
 public:
  Scale(const ScaleSettings& settings, SlicePlacement* placement, SliceTransfers* transfers, Leases* leases,
        MemberGroups* groups, Roster* roster, Outbox* outbox);

  uint32_t WantedWorkers() const;
  bool paused() const { return scale_.paused; }

  // ---- from a former coordinator
  // `same_run`: the members of its run may go on.
  void Restore(const ScaleSet& former, bool same_run);
  // Once the work is restored. Steps that the members of a former run have begun are lost with them.
  void RestorePause(bool same_run);

  // ---- commands. `good`: why they come too late; ok if they do not.
  void OnScale(uint64_t call, const AdminRequest& request, Status good);
  void OnDrain(Time now, uint64_t call, const AdminRequest& request, Status good);
  void OnGrant(Time now, uint64_t call, const AdminRequest& request, Status good);
  void OnPause(uint64_t call, const Status& good);
  void OnContinue(Time now, uint64_t call);
  // The member is to hand over what it has, and to leave. Returns why it cannot.
  Status Drain(Time now, NodeId node);
  void SetChosen(uint32_t workers) { chosen_ = workers; }  // by the autoscaler; 0: not known yet

  // ---- pauses
  void Continue(Time now);  // ends a pause
  // Events since the last input: pause_at was reached, or slices have gone back while the job is paused, and
  // nothing is begun from there.
  void RecordPauseReached();
  void RecordBegun();

  ScaleRows rows() const;

 private:
  // Returns why so many workers are not possible.
  Status CheckWorkers(const WorkerRange& workers) const;
  void WantFewer(Role role);
  void ReleaseBeyondGrant(Time now, Role role, uint32_t granted);
  // Journals the settings if they are others than before.
  void JournalChange(const ScaleSet& before);

  const ScaleSettings& settings_;
  SlicePlacement& placement_;
  SliceTransfers& transfers_;
  Leases& leases_;
  MemberGroups& groups_;
  Roster& roster_;
  Outbox& outbox_;
  ScaleSet scale_;                         // as wanted by the job or by commands
  std::optional<ScaleRows::Grant> grant_;  // the pool's, which repeats it
  uint32_t chosen_ = 0;                    // the autoscaler's choice from a range of workers; 0: unknown
};

}  // namespace leat::protocol
