// The devices that a graph can run on, found by themselves.
//
// A CPU device is a pool of cores. One machine has one for each of its NUMA nodes, or as many as it is told,
// which divide the cores between them. Only what this process may use counts: its affinity and the quota of
// its control group.
//
// Another kind of device plugs in at two places: a Device of its kind in Machine::devices, and a
// graph::KernelTable with the same `device_kind` in PlanOptions::tables. Placement asks the tables of a
// device's kind whether they have a kernel; partitioning puts send and receive where tensors cross; what
// carries them is a Rendezvous (run/rendezvous.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/devices/topology.h"

namespace leat::engine {

class ThreadPool;

struct Device {
  std::string name;  // "cpu:0"
  std::string kind;  // "cpu": that of the tables whose kernels run here
  std::vector<int> cores;
  // That run at the same time: the cores, or fewer when a quota says so. At least 1.
  int threads = 1;
  int numa_node = 0;
  uint64_t memory_bytes = 0;  // 0: unknown
  // Threads on its cores, which all plans of the process share; idle ones block.
  std::shared_ptr<ThreadPool> pool;
};

struct Machine {
  std::string model;  // of the processor
  std::string simd;   // "avx512"
  bool bf16 = false;
  int threads = 1;            // that all devices run at the same time
  uint64_t memory_bytes = 0;  // 0: unknown
  std::vector<Cache> caches;  // of its first core
  std::vector<Device> devices;

  // Throws std::invalid_argument("there is no device \"cpu:7\"; there are cpu:0, cpu:1").
  const Device& Find(const std::string& name) const;
  std::string DeviceNames() const;  // "cpu:0, cpu:1"
};

struct DiscoverOptions {
  // 0: one for each NUMA node. More than there are cores is std::invalid_argument.
  int cpu_devices = 0;
};

// `affinity`: cores that this process may run on, sorted, at least one.
Machine Discover(const ReadText& read, const std::vector<int>& affinity, const DiscoverOptions& options);
// This machine, as this process may use it.
std::shared_ptr<const Machine> Discover(const DiscoverOptions& options = {});

// Cores that this process may keep busy, by affinity and quota: what "all cores" means. At least 1.
int UsableCores();

}  // namespace leat::engine
