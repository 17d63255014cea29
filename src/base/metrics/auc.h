// Area under the ROC curve (AUC) from histograms of scores.
//
// The AUC is the probability that a positive example scores above a negative one, ties counting half (Hanley
// and McNeil 1982). Scores of positive and negative examples are counted in two histograms. Bins are narrow
// near 0 and 1, where scores of rare events lie: within 1/128 of score or 1 - score. Histograms of several
// workers are merged by addition; subtracting an earlier histogram gives the AUC of a window. Not
// thread-safe.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

namespace leat::metrics {

// From counts, or weights, of positive and negative examples by bin, lowest scores first. NaN if either is
// all 0.
double AucOf(std::span<const uint64_t> positive, std::span<const uint64_t> negative);
double AucOf(std::span<const double> positive, std::span<const double> negative);

class AucCounts {
 public:
  // All scores below 2^-16 share the first bin, all above 1 - 2^-16 the last.
  static constexpr uint32_t kTail = 15 * 128 + 1;
  static constexpr uint32_t kBins = 2 * kTail + 1;
  // Non-decreasing in the score. Scores outside [0, 1] are clamped; NaN counts as 0.
  static constexpr uint32_t Bin(float score) {
    if (!(score > 0)) return 0;
    if (score >= 1) return kBins - 1;
    return score < 0.5f ? TailBin(score) : kBins - 1 - TailBin(1 - score);
  }

  AucCounts() : positive_(kBins), negative_(kBins) {}

  void Add(float score, bool positive) { ++(positive ? positive_ : negative_)[Bin(score)]; }
  void Merge(const AucCounts& other);
  // `earlier` must be an earlier state of this histogram.
  void Subtract(const AucCounts& earlier);

  uint64_t positives() const;
  uint64_t negatives() const;
  // Counts by bin.
  const std::vector<uint64_t>& positive() const { return positive_; }
  const std::vector<uint64_t>& negative() const { return negative_; }
  // NaN if there are no positives or no negatives.
  double Auc() const;

  // A few bytes for each non-empty bin, for a worker's report.
  Bytes Encode() const;
  // kDataLoss if the bytes are truncated or invalid.
  static Result<AucCounts> Decode(ByteView bytes);

  friend bool operator==(const AucCounts&, const AucCounts&) = default;

 private:
  // The bin of a score in (0, 0.5]: its exponent and top seven fraction bits, counted from 2^-16.
  static constexpr uint32_t TailBin(float score) {
    constexpr uint32_t kFirst = (127u - 16) << 7;
    const uint32_t place = std::bit_cast<uint32_t>(score) >> 16;
    return place < kFirst ? 0 : place - kFirst + 1;
  }

  std::vector<uint64_t> positive_, negative_;
};

// Prequential figures with forgetting: an event counts `factor` to the power of the events after it (Gama,
// Sebastião and Rodrigues 2013, fading factors).
//
// Events arrive in batches, of which only sums are known. All events of a batch get the batch's mean, so that
// the figure is exact for batches of one event, and for others a change within a batch is smoothed. Parts of
// several workers are added in any order: each is a batch. Not thread-safe.

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
