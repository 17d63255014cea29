#include "compute/engine/devices/devices.h"

#include <sched.h>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "base/text.h"
#include "compute/engine/run/thread_pool.h"

namespace leat::engine {

namespace {

// Upper limit on core numbers, against malformed text.
constexpr int kMaxCores = 1 << 16;

template <class Number>
std::optional<Number> Parse(std::string_view text) {
  return ToNumber<Number>(Trimmed(text));
}

// The value of the first line "key : value" or "key: value".
std::string_view Field(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    std::string_view line = TakeUntil("\n", &text);
    const std::string_view name = TakeUntil(":", &line);
    if (Trimmed(name) == key) return Trimmed(line);
  }
  return "";
}

// "48K", "2048 kB", "1M" or a plain number, in bytes.
uint64_t ParseBytes(std::string_view text) {
  text = Trimmed(text);
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const uint64_t number = Parse<uint64_t>(text.substr(0, digits)).value_or(0);
  const std::string_view unit = Trimmed(text.substr(digits));
  const int shift = unit.empty() ? 0 : unit[0] == 'K' || unit[0] == 'k' ? 10 : unit[0] == 'M' ? 20 : 30;
  return number >> (64 - shift - 1) >> 1 == 0 ? number << shift : 0;
}

// The directories of a control group controller, from this process's group up to the root. A limit in any of
// them applies.
std::vector<std::string> GroupDirectories(const ReadText& read, std::string_view controller) {
  const std::string groups = read("/proc/self/cgroup").value_or("");
  std::vector<std::string> directories;
  std::string_view rest = groups;
  while (!rest.empty()) {
    std::string_view line = TakeUntil("\n", &rest);
    TakeUntil(":", &line);
    std::string_view controllers = TakeUntil(":", &line);
    const bool unified = controllers.empty();
    bool found = unified;
    while (!controllers.empty()) found = TakeUntil(",", &controllers) == controller || found;
    if (!found) continue;
    const std::string root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + std::string(controller);
    std::string path(Trimmed(line));
    while (!path.empty() && path != "/") {
      directories.push_back(root + path);
      path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
    directories.push_back(root);
  }
  return directories;
}

}  // namespace

ReadText ReadFiles() {
  return [](const std::string& path) -> std::optional<std::string> {
    std::ifstream in(path);
    if (!in) return std::nullopt;
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
}

std::vector<int> ParseCpuList(std::string_view text) {
  std::vector<int> cores;
  text = Trimmed(text);
  while (!text.empty()) {
    std::string_view range = TakeUntil(",", &text);
    const std::optional<int> first = Parse<int>(TakeUntil("-", &range));
    const std::optional<int> last = range.empty() ? first : Parse<int>(range);
    if (!first || !last || *first < 0 || *last < *first || *last >= kMaxCores) break;
    for (int core = *first; core <= *last; ++core) cores.push_back(core);
  }
  std::ranges::sort(cores);
  cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
  return cores;
}

std::string FormatCpuList(const std::vector<int>& cores) {
  std::string text;
  for (size_t i = 0; i < cores.size();) {
    size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(cores[i]);
    if (last > i) text += "-" + std::to_string(cores[last]);
    i = last + 1;
  }
  return text;
}

std::string CpuModel(std::string_view cpuinfo) {
  for (const std::string_view key : {"model name", "Model", "cpu model", "CPU part"}) {
    if (const std::string_view name = Field(cpuinfo, key); !name.empty()) return std::string(name);
  }
  return "";
}

bool HasCpuFlag(std::string_view cpuinfo, std::string_view flag) {
  std::string_view flags = Field(cpuinfo, "flags");
  if (flags.empty()) flags = Field(cpuinfo, "Features");  // Arm
  while (!flags.empty()) {
    if (TakeUntil(" ", &flags) == flag) return true;
  }
  return false;
}

std::string SimdLevel(std::string_view cpuinfo) {
  const auto has = [&](std::string_view flag) { return HasCpuFlag(cpuinfo, flag); };
  if (has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl")) return "avx512";
  if (has("avx2") && has("fma")) return "avx2";
  for (const char* level : {"avx", "sse2", "sve", "asimd"}) {
    if (has(level)) return level;
  }
  return "none";
}

bool HasBf16(std::string_view cpuinfo) {
  return HasCpuFlag(cpuinfo, "avx512_bf16") || HasCpuFlag(cpuinfo, "amx_bf16") || HasCpuFlag(cpuinfo, "bf16");
}

std::vector<Cache> Caches(const ReadText& read, int core) {
  std::vector<Cache> caches;
  for (int i = 0; i < 16; ++i) {
    const std::string directory =
        "/sys/devices/system/cpu/cpu" + std::to_string(core) + "/cache/index" + std::to_string(i) + "/";
    const std::optional<std::string> level = read(directory + "level");
    if (!level) break;
    Cache cache;
    cache.level = Parse<int>(*level).value_or(0);
    cache.instructions = Trimmed(read(directory + "type").value_or("")) == "Instruction";
    cache.bytes = ParseBytes(read(directory + "size").value_or(""));
    const auto shared = ParseCpuList(read(directory + "shared_cpu_list").value_or(""));
    cache.cores = std::max(1, static_cast<int>(shared.size()));
    caches.push_back(cache);
  }
  std::ranges::stable_sort(caches, {}, &Cache::level);
  return caches;
}

std::vector<NumaNode> NumaNodes(const ReadText& read, const std::vector<int>& cores) {
  const std::string root = "/sys/devices/system/node/";
  std::vector<NumaNode> nodes;
  for (int index : ParseCpuList(read(root + "online").value_or(""))) {
    const std::string name = "node" + std::to_string(index);
    NumaNode node{.index = index, .cores = {}, .memory_bytes = 0};
    for (int core : ParseCpuList(read(root + name + "/cpulist").value_or(""))) {
      if (std::ranges::binary_search(cores, core)) node.cores.push_back(core);
    }
    const std::string memory = read(root + name + "/meminfo").value_or("");
    node.memory_bytes = ParseBytes(Field(memory, "Node " + std::to_string(index) + " MemTotal"));
    if (!node.cores.empty()) nodes.push_back(std::move(node));
  }
  size_t known = 0;
  for (const NumaNode& node : nodes) known += node.cores.size();
  if (known != cores.size()) return {{.index = 0, .cores = cores, .memory_bytes = UsableMemory(read)}};
  return nodes;
}

uint64_t UsableMemory(const ReadText& read) {
  uint64_t bytes = ParseBytes(Field(read("/proc/meminfo").value_or(""), "MemTotal"));
  for (const std::string& directory : GroupDirectories(read, "memory")) {
    for (const char* file : {"/memory.max", "/memory.limit_in_bytes"}) {
      const auto limit = Parse<uint64_t>(read(directory + file).value_or(""));  // "max" is none
      if (limit && *limit > 0) bytes = bytes == 0 ? *limit : std::min(bytes, *limit);
    }
  }
  return bytes;
}

std::optional<double> CpuQuota(const ReadText& read) {
  std::optional<double> tightest;
  const auto limit = [&](std::optional<int64_t> quota, std::optional<int64_t> period) {
    if (!quota || !period || *quota <= 0 || *period <= 0) return;
    const double cores = static_cast<double>(*quota) / static_cast<double>(*period);
    tightest = std::min(tightest.value_or(cores), cores);
  };
  for (const std::string& directory : GroupDirectories(read, "cpu")) {
    const std::string both = read(directory + "/cpu.max").value_or("");  // "200000 100000", "max 100000"
    std::string_view rest = both;
    const auto quota = Parse<int64_t>(TakeUntil(" ", &rest));
    limit(quota, Parse<int64_t>(rest));
    limit(Parse<int64_t>(read(directory + "/cpu.cfs_quota_us").value_or("")),
          Parse<int64_t>(read(directory + "/cpu.cfs_period_us").value_or("")));
  }
  return tightest;
}

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
