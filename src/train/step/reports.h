// A worker's reports of its training, for heartbeats: scores, the longest step, and its share of the data.
// Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/metrics/share.h"
#include "protocol/messages_control.h"
#include "train/step/trainer.h"

namespace leat::step {

// The scores of each batch, in order, kept until the coordinator has them.
//
// A heartbeat carries all entries that no answer has confirmed, so that none is lost with a heartbeat. The
// coordinator tells repeated entries by their numbers. If no answer comes for long, later batches share an
// entry.
class BatchLog {
 public:
  // Above this, a batch gets an entry of its own only if the last entry has been reported.
  static constexpr size_t kMaxEntries = 1 << 14;

  // Ignores an empty batch.
  void Add(const StepOutcome& batch) {
    if (batch.events == 0) return;
    // An entry that was reported must not change: the coordinator may have it.
    if (entries_.size() < kMaxEntries || entries_.size() == reported_) entries_.emplace_back();
    auto& last = entries_.back();
    last.events += batch.events;
    last.loss_sum += batch.loss_sum;
    last.correct += batch.correct;
    last.absolute_error += batch.absolute_error;
  }
  // Copies the entries into a heartbeat. Only one heartbeat is under way at a time.
  void Report(protocol::WorkerProgress* progress) {
    progress->first_batch = first_;
    progress->batches = entries_;
    reported_ = entries_.size();
  }
  // The last report was answered.
  void OnAnswered() {
    first_ += reported_;
    entries_.erase(entries_.begin(), entries_.begin() + static_cast<ptrdiff_t>(reported_));
    reported_ = 0;
  }

 private:
  uint64_t first_ = 0;  // number of the first entry
  std::vector<protocol::BatchScores> entries_;
  size_t reported_ = 0;  // entries in the last report
};

// The longest time between the ends of two batches lately: the longest wait of training, for any reason.
class LongestStep {
 public:
  // A batch counts for at least this long after its end, and at most for twice as long.
  static constexpr Duration kSpan = std::chrono::seconds(5);

  void OnBatch(Time now) {
    if (!last_) {
      last_ = now;
      begun_ = now;
    }
    const Duration step = now - *std::exchange(last_, now);
    if (now - begun_ >= kSpan) {
      // Nothing else has ended for a whole span: the time before is too old.
      before_ = now - begun_ >= 2 * kSpan ? Duration::zero() : current_;
      current_ = Duration::zero();
      begun_ = now;
    }
    current_ = std::max(current_, step);
  }

  Duration longest() const { return std::max(before_, current_); }

 private:
  std::optional<Time> last_;
  Time begun_{0};  // start of the current span
  Duration before_{0}, current_{0};
};

// The distributions of a worker's training data.
class ShareLog {
 public:
  // Between two reports: distributions change slowly, and a share may have some kilobytes.
  static constexpr Duration kInterval = std::chrono::seconds(1);

  explicit ShareLog(metrics::ShareLayout layout) : layout_(std::move(layout)), share_(layout_) {}

  // A batch that was trained, of a split with `batches` batches.
  void Add(const Rows& rows, std::span<const uint32_t> batch, uint32_t batches) {
    share_.Add(layout_, rows.features, rows.labels, batch, 1.0 / batches);
  }
  // Makes a report if one is due.
  void Update(Time now) {
    if (updated_ && now - *updated_ < kInterval) return;
    updated_ = now;
    report_ = share_.Encode();
  }
  // Moves the report into a heartbeat, if there is a new one.
  void Report(protocol::WorkerProgress* progress) { progress->share = std::exchange(report_, {}); }

 private:
  metrics::ShareLayout layout_;
  metrics::Share share_;
  std::optional<Time> updated_;
  Bytes report_;
};

}  // namespace leat::step
