#include "compute/engine/devices/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "compute/engine/run/thread_pool.h"

namespace leat::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Texts = std::map<std::string, std::string>;

ReadText Reader(const Texts& texts) {
  return [texts](const std::string& path) -> std::optional<std::string> {
    const auto it = texts.find(path);
    return it == texts.end() ? std::nullopt : std::optional(it->second);
  };
}

constexpr char kCpuInfo[] =
    "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 9B45\n"
    "flags\t\t: fpu sse2 avx fma avx2 avx512f avx512dq avx512bw avx512vl avx512_bf16\n\n"
    "processor\t: 1\nmodel name\t: AMD EPYC 9B45\nflags\t\t: fpu sse2\n";

// Two sockets of four cores and a cache each, 64 GiB of memory.
Texts TwoNodes() {
  Texts texts{{"/proc/cpuinfo", kCpuInfo}, {"/proc/meminfo", "MemTotal:       67108864 kB\nMemFree: 1 kB\n"}};
  const std::string node = "/sys/devices/system/node/";
  texts[node + "online"] = "0-1\n";
  texts[node + "node0/cpulist"] = "0-3\n";
  texts[node + "node1/cpulist"] = "4-7\n";
  texts[node + "node0/meminfo"] = "\nNode 0 MemTotal:       33554432 kB\nNode 0 MemFree: 5 kB\n";
  texts[node + "node1/meminfo"] = "Node 1 MemTotal:       33554432 kB\n";
  const std::string cache = "/sys/devices/system/cpu/cpu0/cache/index";
  for (const auto& [i, level, type, size, shared] : {std::tuple{"0", "1", "Data", "48K", "0"},
                                                     {"1", "1", "Instruction", "32K", "0"},
                                                     {"2", "2", "Unified", "1024K", "0"},
                                                     {"3", "3", "Unified", "32M", "0-3"}}) {
    texts[cache + i + "/level"] = std::string(level) + "\n";
    texts[cache + i + "/type"] = std::string(type) + "\n";
    texts[cache + i + "/size"] = std::string(size) + "\n";
    texts[cache + i + "/shared_cpu_list"] = std::string(shared) + "\n";
  }
  return texts;
}

std::vector<int> Cores(int count) {
  std::vector<int> cores;
  for (int i = 0; i < count; ++i) cores.push_back(i);
  return cores;
}

TEST(Topology, ReadsListsOfCores) {
  EXPECT_THAT(ParseCpuList("0-3,8,10-11\n"), ElementsAre(0, 1, 2, 3, 8, 10, 11));
  EXPECT_THAT(ParseCpuList("5,1,1"), ElementsAre(1, 5));
  EXPECT_THAT(ParseCpuList("2,x,3"), ElementsAre(2));
  for (const char* bad : {"", "\n", "x", "-1", "3-1", "0-99999999999", "1-2-3"}) {
    EXPECT_THAT(ParseCpuList(bad), IsEmpty()) << bad;
  }
  EXPECT_EQ(FormatCpuList({0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(FormatCpuList({}), "");
}

TEST(Topology, KnowsVectorsAndTypes) {
  EXPECT_EQ(CpuModel(kCpuInfo), "AMD EPYC 9B45");
  EXPECT_EQ(SimdLevel(kCpuInfo), "avx512");
  EXPECT_TRUE(HasBf16(kCpuInfo));
  EXPECT_EQ(SimdLevel("flags : sse2 avx avx2 fma avx512f"), "avx2");  // AVX-512 needs more than the F subset
  EXPECT_EQ(SimdLevel("flags : sse2 avx avx2"), "avx");
  EXPECT_FALSE(HasBf16("flags : avx512f xavx512_bf16"));
  EXPECT_EQ(SimdLevel("Features : fp asimd bf16"), "asimd");
  EXPECT_TRUE(HasBf16("Features : fp asimd bf16"));
  EXPECT_EQ(SimdLevel(""), "none");
  EXPECT_EQ(CpuModel("nonsense"), "");
}

TEST(Topology, ReadsCaches) {
  const std::vector<Cache> caches = Caches(Reader(TwoNodes()), 0);
  ASSERT_EQ(caches.size(), 4u);
  EXPECT_EQ(caches[0].bytes, 48u << 10);
  EXPECT_TRUE(caches[1].instructions);
  EXPECT_EQ(caches[2].level, 2);
  EXPECT_EQ(caches[3].bytes, 32u << 20);
  EXPECT_EQ(caches[3].cores, 4);
  EXPECT_THAT(Caches(Reader({}), 0), IsEmpty());
}

TEST(Topology, HonoursControlGroups) {
  EXPECT_EQ(CpuQuota(Reader({})), std::nullopt);
  Texts texts = TwoNodes();
  texts["/proc/self/cgroup"] = "0::/jobs/a\n";
  texts["/sys/fs/cgroup/jobs/a/cpu.max"] = "max 100000\n";
  texts["/sys/fs/cgroup/cpu.max"] = "garbage\n";
  EXPECT_EQ(CpuQuota(Reader(texts)), std::nullopt);
  EXPECT_EQ(UsableMemory(Reader(texts)), uint64_t{64} << 30);
  // The limit of the parent group applies too.
  texts["/sys/fs/cgroup/jobs/cpu.max"] = "250000 100000\n";
  texts["/sys/fs/cgroup/jobs/memory.max"] = "1073741824\n";
  texts["/sys/fs/cgroup/jobs/a/memory.max"] = "max\n";
  EXPECT_EQ(CpuQuota(Reader(texts)), 2.5);
  EXPECT_EQ(UsableMemory(Reader(texts)), uint64_t{1} << 30);
  Texts old{{"/proc/self/cgroup", "5:memory:/box\n4:cpu,cpuacct:/box\n0::/\n"},
            {"/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "150000\n"},
            {"/sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n"},
            {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
            {"/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "4096\n"}};
  EXPECT_EQ(CpuQuota(Reader(old)), 1.5);
  EXPECT_EQ(UsableMemory(Reader(old)), 4096u);
  old["/sys/fs/cgroup/cpu/box/cpu.cfs_period_us"] = "0\n";
  EXPECT_EQ(CpuQuota(Reader(old)), std::nullopt);
}

TEST(Devices, OneForEachNumaNode) {
  const Machine machine = Discover(Reader(TwoNodes()), Cores(8), {});
  EXPECT_EQ(machine.threads, 8);
  EXPECT_EQ(machine.DeviceNames(), "cpu:0, cpu:1");
  EXPECT_THAT(machine.devices[1].cores, ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(machine.devices[1].numa_node, 1);
  EXPECT_EQ(machine.devices[1].threads, 4);
  EXPECT_EQ(machine.devices[1].memory_bytes, uint64_t{32} << 30);
  EXPECT_EQ(machine.Find("cpu:1").name, "cpu:1");
  EXPECT_THAT([&] { machine.Find("gpu:0"); }, ::testing::ThrowsMessage<std::invalid_argument>(
                                                  "unknown device \"gpu:0\"; available: cpu:0, cpu:1"));
}

TEST(Devices, AsManyAsAskedForWithinAffinityAndQuota) {
  Texts texts = TwoNodes();
  const Machine four = Discover(Reader(texts), Cores(8), {.cpu_devices = 4});
  ASSERT_EQ(four.devices.size(), 4u);
  EXPECT_THAT(four.devices[2].cores, ElementsAre(4, 5));
  EXPECT_EQ(four.devices[2].memory_bytes, uint64_t{16} << 30);

  const Machine three = Discover(Reader(texts), {1, 2, 6}, {.cpu_devices = 2});
  EXPECT_THAT(three.devices[0].cores, ElementsAre(1));
  EXPECT_THAT(three.devices[1].cores, ElementsAre(2, 6));
  EXPECT_EQ(Discover(Reader(texts), {5}, {}).devices.size(), 1u);

  texts["/proc/self/cgroup"] = "0::/\n";
  texts["/sys/fs/cgroup/cpu.max"] = "150000 100000\n";
  const Machine limited = Discover(Reader(texts), Cores(8), {.cpu_devices = 1});
  EXPECT_EQ(limited.threads, 2);
  EXPECT_EQ(limited.devices[0].threads, 2);
  EXPECT_EQ(limited.devices[0].cores.size(), 8u);
  EXPECT_THAT([&] { Discover(Reader(texts), Cores(2), {.cpu_devices = 3}); },
              ::testing::ThrowsMessage<std::invalid_argument>("3 CPU devices for 2 cores"));
}

TEST(Devices, OfAMachineThatSaysNothing) {
  const Machine machine = Discover(Reader({}), {0, 1}, {});
  ASSERT_EQ(machine.devices.size(), 1u);
  EXPECT_EQ(machine.devices[0].threads, 2);
  EXPECT_EQ(machine.memory_bytes, 0u);
}

TEST(Devices, OfThisMachine) {
  const auto machine = Discover();
  EXPECT_GE(machine->threads, 1);
  EXPECT_EQ(machine->threads, UsableCores());
  EXPECT_GT(machine->memory_bytes, 1u << 20);
  std::set<int> cores;
  for (const Device& device : machine->devices) cores.insert(device.cores.begin(), device.cores.end());
  EXPECT_GE(static_cast<int>(cores.size()), machine->threads);
}

}  // namespace
}  // namespace leat::engine
