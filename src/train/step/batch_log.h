// The scores of each batch, in order, kept until the coordinator has them.
//
// A heartbeat carries all entries that no answer has confirmed, so that none is lost with a heartbeat. The
// coordinator tells repeated entries by their numbers. If no answer comes for long, later batches share an
// entry. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "protocol/messages_control.h"
#include "train/step/trainer.h"

namespace leat::step {

class BatchLog {
 public:
  // Above this, a batch gets an entry of its own only if the last entry has been reported.
  static constexpr size_t kMaxEntries = 1 << 14;

  // Ignores an empty batch.
  void Add(const StepOutcome& batch);
  // Copies the entries into a heartbeat. Only one heartbeat is under way at a time.
  void Report(protocol::WorkerProgress* progress);
  // The last report was answered.
  void OnAnswered();

 private:
  uint64_t first_ = 0;  // number of the first entry
  std::vector<protocol::BatchScores> entries_;
  size_t reported_ = 0;  // entries in the last report
};

}  // namespace leat::step
