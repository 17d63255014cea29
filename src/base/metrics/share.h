// A bounded sketch of a worker's share of a stream: the distribution of the labels, and of each feature, over
// the events that it has trained on.
//
// A category has its counts; a number has its mean and its variance, merged as in Chan, Golub and LeVeque
// (1979). Sketches of one layout can be added, an earlier state can be subtracted, and all weights can fade.
// Where there are more categories than bins, several share a bin, so that distances between sketches are
// lower bounds of those between the distributions. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

namespace leat::metrics {

// Layout of a stream's rows.
struct ShareLayout {
  static constexpr size_t kMaxFeatures = 64;
  static constexpr uint32_t kLabelBins = 128;
  static constexpr uint32_t kFeatureBins = 32;

  struct Feature {
    enum class Kind : uint8_t {
      kNumber,
      kOneHot,  // a column for each category; all 0 for any other value
      kId,      // a whole number below `categories`
    };
    std::string name;
    Kind kind = Kind::kNumber;
    uint32_t column = 0;  // the first of them
    uint32_t categories = 0;
    uint32_t bins() const;  // 0: a number
    friend bool operator==(const Feature&, const Feature&) = default;
  };

  uint32_t width = 0;             // columns of a row
  uint32_t labels = 0;            // labels of a row; 0: there are none
  uint32_t classes = 0;           // classes of a label; 0: it is any number
  std::vector<Feature> features;  // at most kMaxFeatures
  uint32_t label_bins() const;
  friend bool operator==(const ShareLayout&, const ShareLayout&) = default;
};

struct Distribution {
  double weight = 0;         // total of all values
  double mean = 0;           // mean of a number
  double squares = 0;        // squares of a number: Σ (value - mean)²
  std::vector<double> bins;  // weights of a category's values; their sum is `weight`
  // Variance of a number. 0 without values.
  double variance() const { return weight > 0 ? squares / weight : 0; }

  void Count(size_t bin) {
    bins[bin] += 1;
    weight += 1;
  }
  void Merge(const Distribution& other);
  void Fade(double factor);
};

class Share {
 public:
  // At most so many rows of a batch are looked at for their features, so that the cost of a batch is bounded.
  static constexpr size_t kFeatureRows = 32;

  explicit Share(const ShareLayout& layout);

  // Adds the rows of a batch. `split`: the part of its split that the batch is. `features` and `labels` are
  // those of all rows, of which `batch` has the indices. Labels that are no class are left out.
  void Add(const ShareLayout& layout, std::span<const float> features, std::span<const float> labels,
           std::span<const uint32_t> batch, double split);

  // The additions since an earlier state; nullopt if `earlier` is no earlier state.
  std::optional<Share> Since(const Share& earlier) const;
  void Merge(const Share& other);
  void Fade(double factor);

  double events() const { return events_; }
  double splits() const { return splits_; }
  const Distribution& label() const { return label_; }
  const std::vector<Distribution>& features() const { return features_; }

  // For a worker's report, before anything has faded: the counts are whole numbers.
  Bytes Encode() const;
  // kDataLoss if the bytes are not those of a share of this layout, or have a number that no share can have.
  static Result<Share> Decode(const ShareLayout& layout, ByteView bytes);

 private:
  double events_ = 0;
  double splits_ = 0;
  Distribution label_;
  std::vector<Distribution> features_;  // in the order of the layout
};

// How far a worker's share is from the whole of all workers' shares: label distribution skew and feature
// distribution skew (Kairouz et al. 2021, "Advances and open problems in federated learning", section 3.1).
//
// The events of a split come from one partition and may be alike, so a distance counts only if it is larger
// than that of shares of randomly chosen splits. Each split is taken for one draw, however many events it
// has: the worst case. Pure functions.

// Distance of a share from the whole. For categories: the total variation distance, ½ Σ |p - q|, from 0 to 1.
// For a number: the difference of the means in standard deviations of the whole (standardised mean
// difference: Rosenbaum and Rubin 1985), at least 0; also 0 if the number is constant up to the rounding of
// floats. NaN if either has no values.
double Skew(const Distribution& share, const Distribution& whole);

// Sums over splits: of their events, and of the squares of their events.
struct SplitSums {
  double events = 0;
  double squares = 0;
};

// The number of equal draws whose mean is as far from its expectation as a share is from the whole that
// contains it: 1 / n = u² (1 / n_share + 1 / n_rest), where u is the part of the whole that is not the share,
// and n_x = (Σ w)² / Σ w² is the effective sample size (Kish 1965) of splits with weights w. 0 without a
// rest.
double EffectiveSplits(const SplitSums& share, const SplitSums& whole);

// The skew of a share of n random draws from the whole is above this with a probability of at most `alpha`.
// For categories: ½ Σ √(p (1 - p) / n) + √(ln(1 / alpha) / 2n), where the first part bounds the expected
// distance of a multinomial sample, and the second the distance beyond it (McDiarmid 1989). For a number,
// whose mean is close to normal: √(2 ln(2 / alpha) / n). Infinite for n = 0.
double SkewLimit(const Distribution& whole, double n, double alpha);

}  // namespace leat::metrics
