#include "lab/sim/events/memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/testing.h"

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

// True if part of the heap is advised to use huge pages: "hg" among its flags.
bool Advised() {
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  bool heap = false, advised = false;
  while (std::getline(maps, line)) {
    const bool range = line.find('-') < line.find(' ');
    if (range) heap = line.find("[heap]") != std::string::npos;
    advised = advised || (heap && line.starts_with("VmFlags:") && line.find(" hg") != std::string::npos);
  }
  return advised;
}

TEST(HugePages, AreWhatTheHeapGrowsBy) {
#ifdef LEAT_SANITIZED
  GTEST_SKIP() << AllowedSkip("heap");
#endif
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage")) {
    GTEST_SKIP() << AllowedSkip("huge-pages");
  }
  ASSERT_FALSE(Advised());
  HeapOfHugePages(size_t{64} << 20);
  EXPECT_TRUE(Advised());
  // A large allocation is in the heap, too, instead of a separate mapping.
  const auto large = std::make_unique<char[]>(size_t{16} << 20);
  std::memset(large.get(), 1, size_t{16} << 20);
  int here = 0;
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (std::getline(maps, line)) {
    if (line.find("[heap]") == std::string::npos) continue;
    const auto begin = std::stoull(line, nullptr, 16);
    const auto end = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
    const auto at = reinterpret_cast<uintptr_t>(large.get());
    here += begin <= at && at < end;
  }
  EXPECT_EQ(here, 1);
}

}  // namespace
}  // namespace leat::sim
