// Random durations, such as computation times.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/rng.h"

namespace leat::sim {

struct Distribution {
  enum class Kind : uint8_t {
    kConstant = 0,
    kNormal = 1,     // cut off at 0
    kLognormal = 2,  // `mean` is the median; `spread` is the deviation of the logarithm
    kExponential = 3,
  } kind = Kind::kConstant;
  double mean = 0;    // seconds
  double spread = 0;  // normal: standard deviation in seconds; lognormal: see above
  friend bool operator==(const Distribution&, const Distribution&) = default;

  Duration Draw(Rng& rng) const;
};

// Parses "5ms", "normal:5ms,1ms", "lognormal:5ms,0.3", "exponential:5ms". Throws std::invalid_argument with
// the text.
Distribution ParseDistribution(std::string_view text);
// Parses "100us", "5ms", "1.5s", "250ns". Throws as above.
Duration ParseDuration(std::string_view text);
// Bytes per second of "1gbit", "100mbit", "10kbit"; 0 for "unlimited". Throws as above.
double ParseBandwidth(std::string_view text);

}  // namespace leat::sim
