#include "measure.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace leat::bench {
namespace {

// Much longer than reading the clock, and so much shorter than a time slice that most samples, and thus the
// median, are not interrupted even on a busy machine.
constexpr double kSampleSeconds = 2e-4;
constexpr size_t kMinSamples = 11;

double Now(Time time) {
  timespec now{};
  clock_gettime(time == Time::kThread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double Sample(const std::function<void()>& f, size_t calls, Time time) {
  const double begin = Now(time);
  for (size_t i = 0; i < calls; ++i) f();
  return (Now(time) - begin) / static_cast<double>(calls);
}

// Warms up, and returns the number of calls per sample.
size_t CallsPerSample(const std::function<void()>& f, Time time) {
  f();
  double least = Sample(f, 1, time);
  for (int i = 0; i < 4; ++i) least = std::min(least, Sample(f, 1, time));
  return static_cast<size_t>(std::max(1.0, std::ceil(kSampleSeconds / std::max(least, 1e-9))));
}

}  // namespace

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Comparison Compare(const std::function<void()>& a, const std::function<void()>& b, double seconds,
                   Time time) {
  const size_t calls_a = CallsPerSample(a, time);
  const size_t calls_b = CallsPerSample(b, time);
  std::vector<double> times_a, times_b, ratios;
  const double end = Now(Time::kWall) + seconds;
  while (Now(Time::kWall) < end || ratios.size() < kMinSamples) {
    times_a.push_back(Sample(a, calls_a, time));
    times_b.push_back(Sample(b, calls_b, time));
    ratios.push_back(times_a.back() / times_b.back());
  }
  return {Median(times_a), Median(times_b), Median(ratios), ratios.size()};
}

double Measure(const std::function<void()>& a, double seconds, Time time) {
  const size_t calls = CallsPerSample(a, time);
  std::vector<double> times;
  const double end = Now(Time::kWall) + seconds;
  while (Now(Time::kWall) < end || times.size() < kMinSamples) times.push_back(Sample(a, calls, time));
  return Median(times);
}

}  // namespace leat::bench
