#include "lab/sim/events/huge_pages.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "base/testing.h"

namespace leat::sim {
namespace {

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
