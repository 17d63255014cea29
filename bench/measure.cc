#include "measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>

namespace leat::bench {
namespace {

// Long against the clock and an interrupt, short against the time slices of others.
constexpr double kSampleSeconds = 2e-3;
constexpr size_t kLeastSamples = 11;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Sample(const std::function<void()>& f, size_t calls) {
  const double begin = Now();
  for (size_t i = 0; i < calls; ++i) f();
  return (Now() - begin) / static_cast<double>(calls);
}

// Warms up and finds how many calls make a sample.
size_t CallsPerSample(const std::function<void()>& f) {
  f();
  double least = Sample(f, 1);
  for (int i = 0; i < 4; ++i) least = std::min(least, Sample(f, 1));
  return static_cast<size_t>(std::max(1.0, std::ceil(kSampleSeconds / std::max(least, 1e-9))));
}

}  // namespace

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Comparison Compare(const std::function<void()>& a, const std::function<void()>& b, double seconds) {
  const size_t calls_a = CallsPerSample(a);
  const size_t calls_b = CallsPerSample(b);
  std::vector<double> times_a, times_b, ratios;
  const double end = Now() + seconds;
  while (Now() < end || ratios.size() < kLeastSamples) {
    times_a.push_back(Sample(a, calls_a));
    times_b.push_back(Sample(b, calls_b));
    ratios.push_back(times_a.back() / times_b.back());
  }
  return {Median(times_a), Median(times_b), Median(ratios)};
}

double Measure(const std::function<void()>& a, double seconds) {
  const size_t calls = CallsPerSample(a);
  std::vector<double> times;
  const double end = Now() + seconds;
  while (Now() < end || times.size() < kLeastSamples) times.push_back(Sample(a, calls));
  return Median(times);
}

}  // namespace leat::bench
