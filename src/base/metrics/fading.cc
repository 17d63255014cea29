#include "base/metrics/fading.h"

#include <algorithm>
#include <cmath>

namespace leat::metrics {

// Σ factor^k over the batch, divided by its events, is the weight of one event.
FadingWeights WeightsOf(double factor, uint64_t events) {
  const double before = std::pow(factor, static_cast<double>(events));
  return {.before = before, .mean = (1 - before) / (1 - factor)};
}

void FadingScores::Add(const ScoreSums& batch) {
  if (batch.events == 0) return;
  const auto [before, mean] = WeightsOf(factor_, batch.events);
  const double each = mean / static_cast<double>(batch.events);
  weight_ = before * weight_ + mean;
  loss_ = before * loss_ + each * batch.loss;
  correct_ = before * correct_ + each * batch.correct;
  absolute_error_ = before * absolute_error_ + each * batch.absolute_error;
}

FadingAuc::FadingAuc(double factor)
    : factor_(factor), positive_(AucCounts::kBins), negative_(AucCounts::kBins) {}

void FadingAuc::Add(const AucCounts& earlier, const AucCounts& now) {
  const uint64_t all = now.positives() + now.negatives(), old = earlier.positives() + earlier.negatives();
  if (all <= old) return;
  const auto [before, mean] = WeightsOf(factor_, all - old);
  const double each = mean / static_cast<double>(all - old);
  const auto add = [&](const std::vector<uint64_t>& then, const std::vector<uint64_t>& counts,
                       std::vector<double>* sums) {
    for (size_t i = 0; i < counts.size(); ++i)
      (*sums)[i] = before * (*sums)[i] + each * static_cast<double>(counts[i] - std::min(then[i], counts[i]));
  };
  add(earlier.positive(), now.positive(), &positive_);
  add(earlier.negative(), now.negative(), &negative_);
}

double FadingAuc::Auc() const {
  return AucOf(std::span<const double>(positive_), std::span<const double>(negative_));
}

}  // namespace leat::metrics
