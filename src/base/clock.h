// Time is passed in: the core takes a Time as an argument, and only shells own a Clock.
#pragma once

#include <chrono>

namespace leat {

using Duration = std::chrono::nanoseconds;
// Nanoseconds since some fixed moment: monotonic, never the wall clock.
using Time = Duration;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time Now() const = 0;
};

// The machine's monotonic clock. Thread-safe.
class MonotonicClock final : public Clock {
 public:
  Time Now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }
};

// Moves only when told to. Not thread-safe.
class ManualClock final : public Clock {
 public:
  Time Now() const override { return now_; }
  void Advance(Duration by) { now_ += by; }

 private:
  Time now_{0};
};

inline double Seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}
inline Duration FromSeconds(double s) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(s));
}

}  // namespace leat
