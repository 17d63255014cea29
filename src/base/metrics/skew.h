// How far a worker's share is from the whole of all workers' shares: label distribution skew and feature
// distribution skew (Kairouz et al. 2021, "Advances and open problems in federated learning", section 3.1).
//
// The events of a split come from one partition and may be alike, so a distance counts only if it is larger
// than that of shares of randomly chosen splits. Each split is taken for one draw, however many events it
// has: the worst case. Pure functions.
#pragma once

#include "base/metrics/share.h"

namespace leat::metrics {

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
