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
#include <memory>
#include <string>
#include <vector>

#include "compute/engine/devices/topology.h"

namespace leat::engine {

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
