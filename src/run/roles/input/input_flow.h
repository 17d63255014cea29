// Counts what a worker reads, and how long it has nothing to train. Not thread-safe.
#pragma once

#include <optional>

#include "base/clock.h"
#include "protocol/messages_control.h"
#include "run/roles/input/split_loader.h"

namespace leat::roles {

class InputFlow {
 public:
  // `progress` must outlive this.
  explicit InputFlow(protocol::WorkerProgress* progress) : progress_(progress) {}

  void OnSplit(const PreparedSplit& split) {
    progress_->input_records += split.lease.cut.events();
    progress_->input_bytes += split.bytes;
    progress_->decode_seconds += Seconds(split.decoding);
    progress_->unjoined += split.rows.unjoined;
    progress_->lost_to_retention += split.expired;
  }
  // To be called when the number of splits that can be trained has changed. `busy`: the worker waits for
  // something else.
  void OnReady(Time now, size_t splits, bool busy) {
    progress_->splits_ready = static_cast<uint32_t>(splits);
    const bool starved = splits == 0 && !busy;
    if (starved && !since_) since_ = now;
    if (!starved && since_) {
      progress_->input_wait_seconds += Seconds(now - *since_);
      since_.reset();
    }
  }

  // Adds a wait that is not over to a report.
  void AddRunningWait(Time now, protocol::WorkerProgress* report) const {
    if (since_) report->input_wait_seconds += Seconds(now - *since_);
  }

 private:
  protocol::WorkerProgress* progress_;
  std::optional<Time> since_;  // it has nothing to train
};

}  // namespace leat::roles
