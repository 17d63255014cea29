// The workers that a job wants, and the workers that stand by for them.
//
// Invariant: no worker that stands by becomes active before as many workers as are wanted have come once, or
// MemberSettings::standby_wait has passed since the first: those that start together become active together.
//
// The wanted number is the caller's (Scale::WantedWorkers). Pure state, part of the coordinator. Not
// thread-safe.
#pragma once

#include <optional>
#include <vector>

#include "protocol/members/roster.h"

namespace leat::protocol {

class WorkerSlots {
 public:
  explicit WorkerSlots(Roster* roster) : roster_(*roster) {}

  // A worker is ready, or has returned to this coordinator.
  void OnReady(Time now, uint32_t wanted) {
    if (!first_worker_) first_worker_ = now;
    // Counts them only if there may be enough: large clusters would take long to start.
    if (all_came_ || roster_.members().size() < wanted) return;
    all_came_ = roster_.Staying(Role::kWorker) >= wanted;
  }

  // Activates workers that stand by while there are fewer than are wanted, and returns them.
  std::vector<NodeId> Fill(Time now, uint32_t wanted) {
    std::vector<NodeId> activated;
    if (roster_.standing_by() == 0) return activated;
    const bool waited = first_worker_ && now - *first_worker_ >= roster_.settings().standby_wait;
    if (!all_came_ && !waited) return activated;
    for (uint32_t active = roster_.Staying(Role::kWorker); active < wanted; ++active) {
      const MemberState* const standby = roster_.NextStandby();
      if (standby == nullptr) break;
      activated.push_back(standby->member.node);
      roster_.Activate(activated.back());
    }
    return activated;
  }

 private:
  Roster& roster_;
  std::optional<Time> first_worker_;  // when the first one was ready
  bool all_came_ = false;             // as many as are wanted
};

}  // namespace leat::protocol
