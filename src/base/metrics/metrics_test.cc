#include "base/metrics/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "base/rng.h"

namespace leat::metrics {
namespace {

TEST(Buckets, CoverWithoutGaps) {
  for (size_t i = 0; i + 1 < Buckets::kCount; ++i) {
    const double low = Buckets::Lower(i), high = Buckets::Lower(i + 1);
    ASSERT_LE(high / low, 1.126);
    ASSERT_EQ(Buckets::Of(low), i);
    ASSERT_EQ(Buckets::Of(std::nextafter(high, 0)), i);
  }
  EXPECT_EQ(Buckets::Lower(0), 0x1p-30);
  EXPECT_EQ(Buckets::Lower(Buckets::kCount), 0x1p34);
}

TEST(Buckets, TakeWhatLiesOutsideAtTheirEnds) {
  for (double v : {0.0, -0.0, -1.0, 1e-300, -std::numeric_limits<double>::infinity()})
    EXPECT_EQ(Buckets::Of(v), 0u);
  for (double v : {0x1p34, 1e300, std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(Buckets::Of(v), Buckets::kCount - 1);
  }
}

TEST(Histogram, CountsEachNumberInItsBucket) {
  Histogram histogram;
  Rng rng(1);
  std::vector<uint64_t> counts(Buckets::kCount);
  double sum = 0;
  for (int i = 0; i < 20000; ++i) {
    const double value = std::exp(3 * rng.Normal()) * 1e-3;
    histogram.Record(value);
    ++counts[Buckets::Of(value)];
    sum += value;
  }
  histogram.Record(std::numeric_limits<double>::quiet_NaN());
  const auto snapshot = histogram.Snapshot();
  EXPECT_EQ(snapshot.count, 20000u);
  EXPECT_EQ(snapshot.buckets, counts);
  EXPECT_NEAR(snapshot.sum, sum, 1e-9 * sum);
}

TEST(Registry, OneNameIsOneMetric) {
  Registry registry;
  Counter& a = registry.counter("leat_a_total", "things");
  for (int i = 0; i < 1000; ++i) registry.counter("leat_" + std::to_string(i));
  EXPECT_EQ(&a, &registry.counter("leat_a_total")) << "references stay valid when metrics are added";
  a.Add(5);
  registry.gauge("leat_b").Set(2.5);
  registry.gauge("leat_b").Add(-1);
  registry.histogram("leat_c_seconds").Record(1);
  const auto samples = registry.Snapshot();
  EXPECT_EQ(samples.size(), 1003u);
  EXPECT_TRUE(std::ranges::is_sorted(samples, {}, &Sample::name));
  const auto find = [&](std::string_view name) { return *std::ranges::find(samples, name, &Sample::name); };
  EXPECT_EQ(std::get<uint64_t>(find("leat_a_total").value), 5u);
  EXPECT_EQ(find("leat_a_total").help, "things");
  EXPECT_EQ(std::get<double>(find("leat_b").value), 1.5);
  EXPECT_EQ(std::get<HistogramSnapshot>(find("leat_c_seconds").value).count, 1u);
}

TEST(RegistryDeathTest, OneNameAsTwoKindsIsABug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Registry registry;
  registry.counter("leat_a");
  EXPECT_DEATH(registry.gauge("leat_a"), "CHECK");
}

TEST(Registry, ThreadsLoseNothing) {
  Registry registry;
  constexpr int kThreads = 4, kTimes = 10000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kTimes; ++i) {
        registry.counter("n").Add();
        registry.gauge("g").Add(1);
        registry.histogram("h").Record(1);
        if (i % 1000 == 0) registry.Snapshot();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(registry.counter("n").value(), uint64_t{kThreads} * kTimes);
  EXPECT_EQ(registry.gauge("g").value(), kThreads * kTimes);
  EXPECT_EQ(registry.histogram("h").Snapshot().count, uint64_t{kThreads} * kTimes);
  EXPECT_EQ(registry.histogram("h").Snapshot().sum, kThreads * kTimes);
}

}  // namespace
}  // namespace leat::metrics
