// Random durations, such as computation times.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"

namespace leat::sim {

struct Distribution {
  enum class Kind : uint8_t {
    kConstant = 0,
    kNormal = 1,     // cut off at 0
    kLognormal = 2,  // `mean` is the median; `spread` is the deviation of the logarithm
    kExponential = 3,
    kMeasured = 4,  // by its quantiles
  } kind = Kind::kConstant;
  double mean = 0;    // seconds
  double spread = 0;  // normal: standard deviation in seconds; lognormal: see above
  // kMeasured: two or more seconds that divide the values into equal parts, from the least to the largest.
  std::vector<double> quantiles = {};
  friend bool operator==(const Distribution&, const Distribution&) = default;

  Duration Draw(Rng& rng) const;
};

// The distribution of these values (at least one, any order), by at most `parts` quantiles and their mean.
Distribution Measured(std::vector<double> seconds, size_t parts = 32);
// Parses "5ms", "normal:5ms,1ms", "lognormal:5ms,0.3", "exponential:5ms". Throws std::invalid_argument with
// the text.
Distribution ParseDistribution(std::string_view text);
// Parses "100us", "5ms", "1.5s", "250ns", "10m", "2h". Throws as above.
Duration ParseDuration(std::string_view text);
// Bytes of "512kb", "2mb", "1500b", in units of 1024, as tc(8) reads them. Throws as above.
uint64_t ParseBytes(std::string_view text);
// Bytes per second of "1gbit", "100mbit", "10kbit"; 0 for "unlimited". Throws as above.
double ParseBandwidth(std::string_view text);

}  // namespace leat::sim
