// Area under the ROC curve from counts of scores, so that it can be taken over any stretch of a stream.
//
// The AUC is the probability that a positive example scores above a negative one, ties counting half (Hanley
// and McNeil 1982). Scores are kept as two histograms with bins that are narrow where rare events live:
// within 1/128 of the score near 0 and of 1 - score near 1. Counts of workers add up, counts of moments
// subtract to a window. Not thread-safe.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

namespace leat::metrics {

class AucCounts {
 public:
  // Scores below 2^-16 or above 1 - 2^-16 share a bin at their end.
  static constexpr uint32_t kTail = 15 * 128 + 1;
  static constexpr uint32_t kBins = 2 * kTail + 1;
  // Does not decrease with the score. Scores outside [0, 1] count as the nearer end, NaN as 0.
  static constexpr uint32_t Bin(float score) {
    if (!(score > 0)) return 0;
    if (score >= 1) return kBins - 1;
    return score < 0.5f ? TailBin(score) : kBins - 1 - TailBin(1 - score);
  }

  AucCounts() : positive_(kBins), negative_(kBins) {}

  void Add(float score, bool positive) { ++(positive ? positive_ : negative_)[Bin(score)]; }
  void Merge(const AucCounts& other);
  // `earlier` is what was counted before, all of it contained in this.
  void Subtract(const AucCounts& earlier);

  uint64_t positives() const;
  uint64_t negatives() const;
  // NaN while there is no positive or no negative.
  double Auc() const;

  // A few bytes for each bin that is not empty; what a worker reports.
  Bytes Encode() const;
  static Result<AucCounts> Decode(ByteView bytes);

  friend bool operator==(const AucCounts&, const AucCounts&) = default;

 private:
  // Exponent and the first seven bits of the fraction of a score in (0, 0.5], counted from 2^-16.
  static constexpr uint32_t TailBin(float score) {
    constexpr uint32_t kFirst = (127u - 16) << 7;
    const uint32_t place = std::bit_cast<uint32_t>(score) >> 16;
    return place < kFirst ? 0 : place - kFirst + 1;
  }

  std::vector<uint64_t> positive_, negative_;
};

}  // namespace leat::metrics
