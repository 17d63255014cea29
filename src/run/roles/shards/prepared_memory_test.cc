#include "run/roles/shards/saved_slices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace leat::roles {
namespace {

TEST(PreparedMemory, IsTakenOnceAndZeroed) {
  int allocated = 0;
  PreparedMemory memory([&](size_t bytes) {
    ++allocated;
    return Buffer(bytes);
  });
  memory.Prepare({10'000, 10'000, 64});
  EXPECT_EQ(allocated, 3);
  std::vector<Buffer> taken;
  for (int i = 0; i < 2; ++i) taken.push_back(memory.Take(10'000));
  EXPECT_EQ(allocated, 3);
  EXPECT_NE(taken[0].data(), taken[1].data());
  for (const Buffer& buffer : taken) {
    ASSERT_EQ(buffer.size(), 10'000u);
    EXPECT_TRUE(std::ranges::all_of(buffer.bytes(), [](std::byte b) { return b == std::byte(); }));
  }
  EXPECT_EQ(memory.Take(10'000).size(), 10'000u) << "there is none left: it is allocated";
  EXPECT_EQ(memory.Take(128).size(), 128u) << "likewise";
  EXPECT_EQ(allocated, 5);
}

TEST(PreparedMemory, IsFreedByDrop) {
  std::vector<Buffer> all;
  PreparedMemory memory([&](size_t bytes) { return all.emplace_back(bytes); });
  memory.Prepare({100, 200});
  const Buffer taken = memory.Take(100);
  memory.Drop();
  EXPECT_TRUE(all[0].shared());
  EXPECT_FALSE(all[1].shared());
}

TEST(PreparedMemory, PreparesNoMoreOnceItIsDropped) {
  std::atomic<int> allocated{0};
  std::atomic<bool> dropped{false};
  PreparedMemory memory([&](size_t bytes) {
    if (++allocated == 2) {
      while (!dropped) std::this_thread::yield();
    }
    return Buffer(bytes);
  });
  std::thread background([&] { memory.Prepare({1, 1, 1, 1}); });
  while (allocated < 2) std::this_thread::yield();
  memory.Drop();
  dropped = true;
  background.join();
  EXPECT_EQ(allocated, 2);
  memory.Take(1);
  EXPECT_EQ(allocated, 3) << "the one that was being allocated is dropped, too";
}

}  // namespace
}  // namespace leat::roles
