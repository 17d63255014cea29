#include "lab/sim/events/slab.h"

#include <gtest/gtest.h>

#include <vector>

namespace leat::sim {
namespace {

TEST(SlabTest, IndicesAreUniqueAndObjectsDoNotMove) {
  Slab<uint32_t> slab;
  std::vector<uint32_t*> at;
  for (uint32_t i = 0; i < 2000; ++i) {
    const uint32_t index = slab.Allocate();
    slab[index] = index;
    ASSERT_EQ(index, at.size());
    at.push_back(&slab[index]);
  }
  for (uint32_t i = 0; i < 2000; ++i) {
    EXPECT_EQ(*at[i], i);
    EXPECT_EQ(&slab[i], at[i]);
  }
}

TEST(SlabTest, TheLastFreedIsReusedFirstUnchanged) {
  Slab<uint32_t> slab;
  const uint32_t first = slab.Allocate(), second = slab.Allocate();
  slab[first] = 1;
  slab[second] = 2;
  slab.Free(second);
  slab.Free(first);
  EXPECT_EQ(slab.Allocate(), first);
  EXPECT_EQ(slab.Allocate(), second);
  EXPECT_EQ(slab[first], 1u);
  EXPECT_EQ(slab[second], 2u);
  EXPECT_NE(slab.Allocate(), first);
}

}  // namespace
}  // namespace leat::sim
