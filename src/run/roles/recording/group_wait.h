// How long a member waits for the others of its group. Not thread-safe.
#pragma once

#include <optional>
#include <utility>

#include "base/clock.h"
#include "protocol/messages_control.h"

namespace leat::roles {

class GroupWait {
 public:
  // `progress` must outlive this.
  explicit GroupWait(protocol::WorkerProgress* progress) : progress_(progress) {}

  // A reduction begins.
  void Begin(Time now) { since_ = now; }
  // It is over, or the group is left before. Returns when it began; nothing if there is none.
  std::optional<Time> End(Time now) {
    if (since_) progress_->wait_seconds += Seconds(now - *since_);
    return std::exchange(since_, std::nullopt);
  }
  // Adds a wait that is not over to a report.
  void AddRunningWait(Time now, protocol::WorkerProgress* report) const {
    if (since_) report->wait_seconds += Seconds(now - *since_);
  }

 private:
  protocol::WorkerProgress* progress_;
  std::optional<Time> since_;
};

}  // namespace leat::roles
