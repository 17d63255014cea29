// Clocks. Protocol code takes the time as an argument, so tests control it; only code that does I/O owns a
// Clock.
#pragma once

#include <chrono>
#include <cstdint>

namespace leat {

using Duration = std::chrono::nanoseconds;
// Nanoseconds since an arbitrary fixed point. Monotonic, not the wall clock.
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

inline double Seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}
inline Duration FromSeconds(double s) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(s));
}

// The wall clock: since 1970, without leap seconds.
inline Duration UnixTime() {
  return std::chrono::system_clock::now().time_since_epoch();
}
inline int64_t UnixMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(UnixTime()).count();
}

}  // namespace leat
