// Figures of a server about the pushes that it has taken, as its heartbeats report them. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "protocol/messages_control.h"

namespace leat::protocol {

struct PushFigures {
  // Bins of the staleness histogram: initially, and at most (for large clusters).
  static constexpr size_t kStalenessBins = 129, kMaxStalenessBins = 4097;

  PushFigures() { progress.staleness.resize(kStalenessBins); }

  void Measure(uint64_t staleness) {
    if (forwarding) return;
    const size_t bin = std::min<uint64_t>(staleness, kMaxStalenessBins - 1);
    if (bin >= progress.staleness.size()) progress.staleness.resize(bin + 1);
    ++progress.staleness[bin];
    progress.staleness_sum += staleness;
    ++progress.staleness_count;
  }
  // A run, or a step with it, had a gradient that was not finite.
  void Reject(const RejectedRun& run) {
    ++consecutive_rejected;
    ++progress.skipped;
    rejected = run;
  }
  void Report(ServerHeartbeat* heartbeat) const {
    heartbeat->consecutive_rejected = consecutive_rejected;
    heartbeat->rejected = rejected;
    heartbeat->progress = progress;
  }

  ServerProgress progress;
  uint32_t consecutive_rejected = 0;
  std::optional<RejectedRun> rejected;
  bool forwarding = false;  // a forwarded push is applied: the primary measures its staleness
};

}  // namespace leat::protocol
