// The distributions of a worker's training data, for its reports. Not thread-safe.
#pragma once

#include <optional>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/metrics/share.h"
#include "protocol/messages_control.h"
#include "train/step/trainer.h"

namespace leat::step {

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
