// Figures that depend on the order of batches: with forgetting, and the alarms of a drift detector.
//
// The coordinator feeds them with the batches that workers report. The detector gets one value per batch, the
// mean over its events, and not one per event, for three reasons: a worker scores all events of a batch by
// the same parameters, so their order in the batch says nothing about the model; a report of each event's
// loss would cost as much as the push of a small model; and the mean is what the detectors compare anyway.
// Settings that count values (clock, min_instances) therefore count batches. With batches of one event the
// alarms are those of a detector per event.
//
// Batches of one worker come in the order in which it trained them. Batches of several workers interleave as
// their heartbeats arrive, about ten a second, which is short against any drift worth an alarm. Batches whose
// figures are not finite are left out. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/metrics/auc.h"
#include "base/metrics/drift.h"
#include "protocol/messages_control.h"

namespace leat::report {

struct DriftAlarm {
  uint64_t number = 0;  // 1 for the first of the run
  uint64_t event = 0;   // events of the job scored until then; for one worker, a position in the stream
  double mean = 0;      // mean of the detector's values before
};

class Prequential {
 public:
  struct Options {
    uint32_t labels = 1;           // per event
    std::optional<double> fading;  // factor
    std::optional<metrics::DriftConfig> drift;
  };
  struct Fading {
    double factor;
    metrics::FadingScores scores;
    metrics::FadingAuc auc;
  };
  explicit Prequential(Options options);

  // `events_before`: of the job, trained before this run.
  void Add(uint64_t events_before, const protocol::BatchScores& batch);
  // The scores of a worker so far, and those of its former report.
  void AddScores(const metrics::AucCounts& earlier, const metrics::AucCounts& now);

  // Null: not asked for.
  const Fading* fading() const { return fading_ ? &*fading_ : nullptr; }
  uint64_t alarms() const { return last_ ? last_->number : 0; }
  const std::optional<DriftAlarm>& last_alarm() const { return last_; }
  // Alarms since the last call.
  std::vector<DriftAlarm> TakeAlarms() { return std::exchange(new_alarms_, {}); }

 private:
  double DetectorValue(const protocol::BatchScores& batch) const;

  Options options_;
  std::optional<Fading> fading_;
  std::optional<metrics::DriftDetector> detector_;
  uint64_t events_ = 0;
  std::optional<DriftAlarm> last_;
  std::vector<DriftAlarm> new_alarms_;
};

}  // namespace leat::report
