// Measures calls on a shared machine: many short samples of each, in turn, and their medians.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace leat::bench {

struct Comparison {
  double a = 0;  // median seconds per call
  double b = 0;
  double ratio = 0;  // median of a / b over all pairs; a temporary slowdown affects both alike
  size_t runs = 0;   // pairs
};

// The clock. kThread is the CPU time of the calling thread, which other load on the machine affects less; for
// work of one thread.
enum class Time { kWall, kThread };

// Measures a and b in turn (A B A B …) for about `seconds` of wall time in total. Warms up both first.
// Repeats short calls within a sample.
Comparison Compare(const std::function<void()>& a, const std::function<void()>& b, double seconds,
                   Time time = Time::kWall);

// The median of the seconds per call.
double Measure(const std::function<void()>& a, double seconds, Time time = Time::kWall);

// The median; 0 if there are no values, the mean of the middle two for an even number.
double Median(std::vector<double> values);

}  // namespace leat::bench
