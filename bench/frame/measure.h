// Times of calls on a machine that others use too: many short samples, in turn, and medians.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace leat::bench {

struct Comparison {
  double a = 0;  // seconds a call, median
  double b = 0;
  double ratio = 0;  // median of a / b over the pairs: what slows the machine for a while slows both
  size_t runs = 0;   // pairs
};

// What counts as time. kThread is the processor time of the calling thread: for work of one thread, which
// others on the machine then stretch less.
enum class Time { kWall, kThread };

// Runs a and b in turn (A B A B …) for about `seconds` of wall time in all; short calls are repeated within a
// sample. Both are warmed up first.
Comparison Compare(const std::function<void()>& a, const std::function<void()>& b, double seconds,
                   Time time = Time::kWall);

// Seconds a call, median.
double Measure(const std::function<void()>& a, double seconds, Time time = Time::kWall);

// 0 for none; the mean of the middle two for an even number.
double Median(std::vector<double> values);

}  // namespace leat::bench
