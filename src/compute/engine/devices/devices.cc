#include "compute/engine/devices/devices.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "base/text.h"
#include "compute/engine/run/thread_pool.h"

namespace leat::engine {
namespace {

std::vector<int> Affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.push_back(core);
    }
  }
  if (!cores.empty()) return cores;
  // The machine has more cores than a cpu_set_t holds: use them all.
  cores.resize(std::max(1u, std::thread::hardware_concurrency()));
  std::iota(cores.begin(), cores.end(), 0);
  return cores;
}

int Threads(const std::vector<int>& cores, std::optional<double> quota) {
  const auto all = static_cast<int>(cores.size());
  return quota ? std::clamp(static_cast<int>(std::ceil(*quota - 0.01)), 1, all) : all;
}

// Divides the cores of `nodes` among `count` devices in contiguous ranges, so that a device spans few nodes.
std::vector<Device> DealOut(const std::vector<NumaNode>& nodes, size_t count) {
  std::vector<std::pair<int, int>> cores;  // core, node
  for (const NumaNode& node : nodes) {
    for (int core : node.cores) cores.emplace_back(core, node.index);
  }
  std::vector<Device> devices;
  for (size_t d = 0; d < count; ++d) {
    Device device;
    const size_t begin = d * cores.size() / count, end = (d + 1) * cores.size() / count;
    for (size_t i = begin; i < end; ++i) device.cores.push_back(cores[i].first);
    device.numa_node = cores[begin].second;
    std::ranges::sort(device.cores);
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace

const Device& Machine::Find(const std::string& name) const {
  const auto found = std::ranges::find(devices, name, &Device::name);
  if (found == devices.end()) {
    throw std::invalid_argument("unknown device \"" + name + "\"; available: " + DeviceNames());
  }
  return *found;
}

std::string Machine::DeviceNames() const {
  return Joined(devices, ", ", &Device::name);
}

Machine Discover(const ReadText& read, const std::vector<int>& affinity, const DiscoverOptions& options) {
  const std::string cpuinfo = read("/proc/cpuinfo").value_or("");
  Machine machine;
  machine.model = CpuModel(cpuinfo);
  machine.simd = SimdLevel(cpuinfo);
  machine.bf16 = HasBf16(cpuinfo);
  machine.threads = Threads(affinity, CpuQuota(read));
  machine.memory_bytes = UsableMemory(read);
  machine.caches = Caches(read, affinity.front());

  const std::vector<NumaNode> nodes = NumaNodes(read, affinity);
  if (options.cpu_devices < 0 || options.cpu_devices > static_cast<int>(affinity.size())) {
    throw std::invalid_argument(std::to_string(options.cpu_devices) + " CPU devices for " +
                                std::to_string(affinity.size()) + " cores");
  }
  const size_t count = options.cpu_devices == 0 ? nodes.size() : static_cast<size_t>(options.cpu_devices);
  machine.devices = DealOut(nodes, count);
  for (size_t d = 0; d < count; ++d) {
    Device& device = machine.devices[d];
    device.name = "cpu:" + std::to_string(d);
    device.kind = "cpu";
    // The quota is for the process; each device gets its share.
    const double share = static_cast<double>(device.cores.size()) / static_cast<double>(affinity.size());
    device.threads = std::max(1, static_cast<int>(std::lround(machine.threads * share)));
    device.memory_bytes = options.cpu_devices == 0 && nodes.size() > 1
                              ? std::min(nodes[d].memory_bytes, machine.memory_bytes)
                              : static_cast<uint64_t>(static_cast<double>(machine.memory_bytes) * share);
    device.pool = std::make_shared<ThreadPool>(count > 1 ? device.cores : std::vector<int>{});
  }
  return machine;
}

std::shared_ptr<const Machine> Discover(const DiscoverOptions& options) {
  return std::make_shared<const Machine>(Discover(ReadFiles(), Affinity(), options));
}

int UsableCores() {
  return Threads(Affinity(), CpuQuota(ReadFiles()));
}

}  // namespace leat::engine
