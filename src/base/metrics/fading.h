// Prequential figures with forgetting: an event counts `factor` to the power of the events after it (Gama,
// Sebastião and Rodrigues 2013, fading factors).
//
// Events arrive in batches, of which only sums are known. All events of a batch get the batch's mean, so that
// the figure is exact for batches of one event, and for others a change within a batch is smoothed. Parts of
// several workers are added in any order: each is a batch. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "base/metrics/auc.h"

namespace leat::metrics {

// The weights of what came before a batch of `events`, and of the batch's mean.
struct FadingWeights {
  double before = 1, mean = 0;
};
FadingWeights WeightsOf(double factor, uint64_t events);

// Sums over scored events. Also of one batch.
struct ScoreSums {
  uint64_t events = 0;
  double loss = 0;
  double correct = 0;         // labels predicted correctly
  double absolute_error = 0;  // regression: Σ |prediction - label|
};

class FadingScores {
 public:
  // 0 < factor < 1
  explicit FadingScores(double factor) : factor_(factor) {}

  void Add(const ScoreSums& batch);
  // Means per event; NaN before the first. Divide by the labels of an event for a mean per label.
  double loss() const { return loss_ / weight_; }
  double correct() const { return correct_ / weight_; }
  double absolute_error() const { return absolute_error_ / weight_; }

 private:
  double factor_;
  double weight_ = 0, loss_ = 0, correct_ = 0, absolute_error_ = 0;
};

class FadingAuc {
 public:
  explicit FadingAuc(double factor);

  // Counts the scores in `now` that are not in `earlier`, an earlier state of it.
  void Add(const AucCounts& earlier, const AucCounts& now);
  // NaN if there are no positives or no negatives.
  double Auc() const;

 private:
  double factor_;
  std::vector<double> positive_, negative_;
};

}  // namespace leat::metrics
