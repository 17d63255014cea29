#include "protocol/allreduce/reduction.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace leat::protocol {
namespace {

using Ranges = std::vector<VariableRange>;

Ranges Plan(std::vector<uint64_t> bytes, uint64_t bucket_bytes) {
  return PlanBuckets(bytes, bucket_bytes);
}

TEST(PlanBuckets, StartsWithTheLastVariables) {
  EXPECT_EQ(Plan({40, 8, 40, 8}, 48), (Ranges{{2, 4}, {0, 2}}));
  EXPECT_EQ(Plan({40, 8, 40, 8}, 49), (Ranges{{1, 4}, {0, 1}}));
}

TEST(PlanBuckets, LeavesTheRestToTheLastBucket) {
  EXPECT_EQ(Plan({4, 100, 100}, 100), (Ranges{{2, 3}, {1, 2}, {0, 1}}));
  EXPECT_EQ(Plan({4, 4, 4}, 100), (Ranges{{0, 3}}));
}

TEST(PlanBuckets, NeverCutsAVariable) {
  EXPECT_EQ(Plan({1000, 4}, 100), (Ranges{{0, 2}}));
  EXPECT_EQ(Plan({4, 1000}, 100), (Ranges{{1, 2}, {0, 1}}));
}

TEST(PlanBuckets, TakesOneVariableAtATimeWhereNothingIsAsked) {
  EXPECT_EQ(Plan({4, 0, 8}, 0), (Ranges{{2, 3}, {1, 2}, {0, 1}}));
  EXPECT_EQ(Plan({}, 100), Ranges{});
}

TEST(PlanBuckets, PutsEveryVariableInExactlyOneBucket) {
  Rng rng(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<uint64_t> bytes(1 + rng.Below(20));
    for (uint64_t& b : bytes) b = 4 * rng.Below(100);
    const uint64_t least = rng.Below(600);
    size_t end = bytes.size();
    for (const VariableRange& bucket : Plan(bytes, least)) {
      ASSERT_EQ(bucket.end, end);
      ASSERT_LT(bucket.first, bucket.end);
      uint64_t sum = 0;
      for (size_t v = bucket.first + 1; v < bucket.end; ++v) sum += bytes[v];
      if (bucket.end - bucket.first > 1) {
        ASSERT_LT(sum, least) << "it was full before";
      }
      if (bucket.first > 0) {
        ASSERT_GE(sum + bytes[bucket.first], least);
      }
      end = bucket.first;
    }
    ASSERT_EQ(end, 0u);
  }
}

}  // namespace
}  // namespace leat::protocol
