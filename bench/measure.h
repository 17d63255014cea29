// Times of calls on a machine that others use too: many short samples, in turn, and medians.
#pragma once

#include <functional>
#include <vector>

namespace leat::bench {

struct Comparison {
  double a = 0;  // seconds a call, median
  double b = 0;
  double ratio = 0;  // median of a / b over the pairs: what slows the machine for a while slows both
};

// Runs a and b in turn (A B A B …) for about `seconds` in all; short calls are repeated within a sample. Both
// are warmed up first.
Comparison Compare(const std::function<void()>& a, const std::function<void()>& b, double seconds);

// Seconds a call, median.
double Measure(const std::function<void()>& a, double seconds);

// 0 for none; the mean of the middle two for an even number.
double Median(std::vector<double> values);

}  // namespace leat::bench
