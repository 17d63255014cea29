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

}  // namespace leat::metrics
