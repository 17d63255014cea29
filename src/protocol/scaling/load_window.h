// The load of a job over the last minutes: how many events came and how many were trained. Pure state, part
// of the autoscaler.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "base/clock.h"

namespace leat::protocol {

class LoadWindow {
 public:
  static constexpr Duration kLength = std::chrono::minutes(10);
  // Rates over less time are noise.
  static constexpr Duration kShortest = std::chrono::seconds(3);

  struct Rates {  // events per second
    double arrival = 0;
    double throughput = 0;
  };

  // The counts at `now`, which ascends. A count that has fallen (a server was restored) begins a new window,
  // and the result is false.
  bool Add(Time now, uint64_t arrived, uint64_t trained);
  void Clear() { samples_.clear(); }

  // Over the time from `from` on, as far as it is known; none if that is shorter than kShortest.
  std::optional<Rates> Since(Time from) const;
  // Over the last seconds: kShortest, or longer until training has moved often enough for a rate.
  std::optional<Rates> Recent() const;
  // The highest recent rate of arrival at any time from `from` on; 0 if it is not known.
  double PeakArrival(Time from) const;

 private:
  struct Sample {
    Time at{0};
    uint64_t arrived = 0;
    uint64_t trained = 0;
    uint64_t moves = 0;  // samples so far in which `trained` had grown
    double arrival = 0;  // Recent(), at that time
  };
  std::optional<Rates> Between(const Sample& first, const Sample& last) const;

  std::deque<Sample> samples_;
};

}  // namespace leat::protocol
