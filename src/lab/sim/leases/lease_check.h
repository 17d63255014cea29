// Invariants of leases: a coordinator that was replaced leases nothing (kSuccessionOneCoordinator), late
// labels of a cut are always the same (kLeasesLabels), the watermark never passes a run that a live slice
// lacks (kLeasesWatermark), and nothing is begun while the job is paused (kScalingPause).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "lab/sim/leases/labels.h"
#include "lab/sim/members/role_process.h"
#include "protocol/coordinator/coordinator.h"

namespace leat::sim {

class LeaseCheck : Concern {
 public:
  using Concern::Concern;

  // Each watermark of the newest coordinator.
  void CheckWatermark();
  // Each reply of a coordinator, of a term.
  void CheckReply(uint64_t term, const protocol::ControlReply& reply);
  // Each lease that a worker takes, and each round that a member takes. Servers refuse the work of a worker
  // that is evicted already.
  void CheckTaken(const RoleProcess& p, const protocol::Lease& lease);
  // A record is journaled, and will be acted on.
  void OnLabels(const protocol::LabelsMarked& marked) { labels_.OnJournaled(marked); }

  // ---- pauses
  void OnScale(const protocol::ScaleSet& set);
  // As OnScale, of coordinators with directories of their own.
  void OnAgreedScale(const protocol::ScaleSet& set);
  // Another coordinator takes over with this state.
  void OnTakenOver(const protocol::RecoveredState& restored);

 private:
  void CheckLabels(const protocol::WorkerHeartbeatReply& reply);
  void CheckPause(uint64_t term, const protocol::WorkerHeartbeatReply& reply);

  LabelCheck labels_;
  std::unordered_map<uint64_t, uint64_t> leased_by_;  // by lease: the coordinator's term
  std::map<std::pair<uint32_t, protocol::Position>, uint64_t>
      taken_from_;                       // by cut: the highest term of a lease
  uint64_t leased_until_ = 0;            // stepped: some of each step before this one has been leased
  std::optional<uint64_t> paused_from_;  // `leased_until_`, when the job was paused
};

}  // namespace leat::sim
