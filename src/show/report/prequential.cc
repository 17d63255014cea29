#include "show/report/prequential.h"

#include <cmath>

namespace leat::report {

Prequential::Prequential(Options options) : options_(std::move(options)) {
  if (options_.fading) {
    const double factor = *options_.fading;
    fading_.emplace(Fading{factor, metrics::FadingScores(factor), metrics::FadingAuc(factor)});
  }
  if (options_.drift) detector_.emplace(*options_.drift);
}

double Prequential::DetectorValue(const protocol::BatchScores& batch) const {
  const auto events = static_cast<double>(batch.events), labels = events * options_.labels;
  switch (options_.drift->on) {
    case metrics::DriftConfig::On::kLoss:
      return batch.loss_sum / events;
    case metrics::DriftConfig::On::kError:
      return 1 - static_cast<double>(batch.correct) / labels;
    case metrics::DriftConfig::On::kAbsoluteError:
      return batch.absolute_error / labels;
  }
  return 0;
}

void Prequential::Add(uint64_t events_before, const protocol::BatchScores& batch) {
  if (batch.events == 0) return;
  events_ += batch.events;
  if (!std::isfinite(batch.loss_sum) || !std::isfinite(batch.absolute_error)) return;
  if (fading_) {
    fading_->scores.Add({.events = batch.events,
                         .loss = batch.loss_sum,
                         .correct = static_cast<double>(batch.correct),
                         .absolute_error = batch.absolute_error});
  }
  if (!detector_) return;
  const double mean = detector_->mean();
  if (!detector_->Update(DetectorValue(batch))) return;
  last_ = {.number = alarms() + 1, .event = events_before + events_, .mean = mean};
  new_alarms_.push_back(*last_);
}

void Prequential::AddScores(const metrics::AucCounts& earlier, const metrics::AucCounts& now) {
  if (fading_) fading_->auc.Add(earlier, now);
}

}  // namespace leat::report
