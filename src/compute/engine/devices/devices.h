// Discovery of the devices that a graph can run on.
//
// A CPU device is a set of cores. By default a machine has one CPU device per NUMA node; an option divides
// the cores into any other number. Only cores that this process may use count, by its affinity and control
// group quota.
//
// To add another kind of device, provide a Device in Machine::devices and a graph::KernelTable with the same
// `device_kind` in PlanOptions::tables. Placement uses only tables of a device's kind. Partitioning adds send
// and receive ops where tensors cross devices; a Rendezvous (run/rendezvous.h) transfers them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace leat::engine {

// Hardware topology of a Linux machine, parsed from /proc and /sys.
//
// Files are read through a callback, so that tests can supply those of any machine. Missing or malformed data
// counts as unknown; nothing of it throws. Thread-safe.

// Returns the text of a file, given its absolute path; empty if there is none.
using ReadText = std::function<std::optional<std::string>(const std::string& path)>;
// Reads the files of this machine.
ReadText ReadFiles();

struct Cache {
  int level = 0;
  bool instructions = false;  // an instruction cache
  uint64_t bytes = 0;
  int cores = 1;  // number of cores that share it
};

struct NumaNode {
  int index = 0;
  std::vector<int> cores;
  uint64_t memory_bytes = 0;
};

// "0-3,8,10-11" → 0 1 2 3 8 10 11, sorted. Stops at the first malformed part.
std::vector<int> ParseCpuList(std::string_view text);
// 0 1 2 3 8 → "0-3,8"
std::string FormatCpuList(const std::vector<int>& cores);

// The processor model, "" if /proc/cpuinfo does not state it.
std::string CpuModel(std::string_view cpuinfo);
// Whether the flags of the first processor hold `flag` ("avx512f").
bool HasCpuFlag(std::string_view cpuinfo, std::string_view flag);
// "avx512", "avx2", "avx", "sse2", "asimd" (with "sve" if present), or "none".
std::string SimdLevel(std::string_view cpuinfo);
// Whether the processor has bf16 dot-product instructions.
bool HasBf16(std::string_view cpuinfo);

// The caches that core `core` uses, smallest level first.
std::vector<Cache> Caches(const ReadText& read, int core);
// The NUMA nodes that contain any of `cores`, limited to these. A single node with all cores if Linux reports
// none.
std::vector<NumaNode> NumaNodes(const ReadText& read, const std::vector<int>& cores);
// Bytes of main memory, or the lowest control group limit if that is less; 0 if unknown.
uint64_t UsableMemory(const ReadText& read);
// CPU quota of this process in cores, the lowest among its control groups (version 1 or 2); empty if
// unlimited.
std::optional<double> CpuQuota(const ReadText& read);

class ThreadPool;

struct Device {
  std::string name;  // "cpu:0"
  std::string kind;  // "cpu": equals KernelTable::device_kind of its kernels
  std::vector<int> cores;
  // Threads to run at the same time: the number of cores, or fewer under a quota. At least 1.
  int threads = 1;
  int numa_node = 0;
  uint64_t memory_bytes = 0;  // 0: unknown
  // Threads on its cores, shared by all plans of the process. Idle threads sleep.
  std::shared_ptr<ThreadPool> pool;
};

struct Machine {
  std::string model;  // processor model
  std::string simd;   // "avx512"
  bool bf16 = false;
  int threads = 1;            // sum over all devices
  uint64_t memory_bytes = 0;  // 0: unknown
  std::vector<Cache> caches;  // caches of the first core
  std::vector<Device> devices;

  // Throws std::invalid_argument("unknown device \"cpu:7\"; available: cpu:0, cpu:1").
  const Device& Find(const std::string& name) const;
  std::string DeviceNames() const;  // "cpu:0, cpu:1"
};

struct DiscoverOptions {
  // Number of CPU devices; 0: one per NUMA node. Discover throws std::invalid_argument if it exceeds the
  // cores.
  int cpu_devices = 0;
};

// `affinity`: cores that this process may run on, sorted, at least one.
Machine Discover(const ReadText& read, const std::vector<int>& affinity, const DiscoverOptions& options);
// This machine, limited to the resources that this process may use.
std::shared_ptr<const Machine> Discover(const DiscoverOptions& options = {});

// Number of cores that this process may use, by affinity and quota. Settings such as "all cores" mean this.
// At least 1.
int UsableCores();

}  // namespace leat::engine
