#include "show/prometheus/families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace leat::observe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(FamiliesTest, SamplesOfOneMetricStandTogether) {
  constexpr Metric kOne = {"leat_one_total", "One."};
  constexpr Metric kTwo = {"leat_two", "Two."};
  Families families;
  families.Add(kOne, 3, {{"role", "ps"}});
  families.Add(kTwo, 0.5);
  families.Add(kOne, 4, {{"role", "a \"quoted\"\nline"}});
  EXPECT_EQ(families.Text(),
            "# HELP leat_one_total One.\n"
            "# TYPE leat_one_total counter\n"
            "leat_one_total{role=\"ps\"} 3\n"
            "leat_one_total{role=\"a \\\"quoted\\\"\\nline\"} 4\n"
            "# HELP leat_two Two.\n"
            "# TYPE leat_two gauge\n"
            "leat_two 0.5\n");
}

TEST(FamiliesTest, LargeCountsAreExact) {
  constexpr Metric kBytes = {"leat_bytes_total", "Bytes."};
  Families families;
  families.Add(kBytes, 1234567890123.0);
  EXPECT_THAT(families.Text(), HasSubstr("leat_bytes_total 1234567890123\n"));
}

TEST(FamiliesTest, WhatIsNotKnownIsLeftOut) {
  constexpr Metric kLoss = {"leat_loss", "Loss."};
  Families families;
  families.Add(kLoss, NAN);
  families.Add(kLoss, INFINITY);
  EXPECT_EQ(families.Text(), "");
}

TEST(FamiliesTest, HistogramsAreCumulative) {
  constexpr Metric kStaleness = {"leat_staleness", "Updates."};
  std::vector<uint64_t> counts(2000);
  counts[0] = 5;
  counts[1] = 3;
  counts[3] = 2;
  counts[1024] = 1;
  counts[1999] = 4;
  Families families;
  families.AddHistogram(kStaleness, counts, 9000);
  const std::string text = families.Text();
  for (const char* line :
       {"leat_staleness_count 15\n", "leat_staleness_sum 9000\n", "leat_staleness_bucket{le=\"0\"} 5\n",
        "leat_staleness_bucket{le=\"1\"} 8\n", "leat_staleness_bucket{le=\"2\"} 8\n",
        "leat_staleness_bucket{le=\"4\"} 10\n", "leat_staleness_bucket{le=\"1024\"} 11\n",
        "leat_staleness_bucket{le=\"+Inf\"} 15\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

TEST(FamiliesTest, ARegistryIsExported) {
  metrics::Registry registry;
  registry.counter("leat_pushes_total", "Pushes.").Add(7);
  registry.gauge("leat_level", "Level.").Set(0.25);
  for (const double seconds : {0.0, 0.001, 0.2, 100.0})
    registry.histogram("leat_seconds", "Time.").Record(seconds);
  Families families;
  families.Add(registry);
  const std::string text = families.Text();
  EXPECT_THAT(text, HasSubstr("# HELP leat_pushes_total Pushes.\n# TYPE leat_pushes_total counter\n"
                              "leat_pushes_total 7\n"));
  EXPECT_THAT(text, HasSubstr("leat_level 0.25\n"));
  for (const char* line :
       {"# TYPE leat_seconds histogram\n", "leat_seconds_count 4\n", "leat_seconds_sum 100.201\n",
        "leat_seconds_bucket{le=\"0.0009765625\"} 1\n", "leat_seconds_bucket{le=\"0.001953125\"} 2\n",
        "leat_seconds_bucket{le=\"0.25\"} 3\n", "leat_seconds_bucket{le=\"64\"} 3\n",
        "leat_seconds_bucket{le=\"+Inf\"} 4\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

}  // namespace
}  // namespace leat::observe
