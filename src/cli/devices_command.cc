// leat devices: shows this machine's processors, caches and memory, and measures their speed.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json/text.h"
#include "base/text.h"
#include "cli/commands.h"
#include "compute/engine/devices/devices.h"
#include "compute/engine/placement/placement.h"

namespace leat {
namespace {

std::string MemoryText(uint64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
  return bytes == 0 ? "unknown" : Formatted("%.*f %s", value < 10 && unit > 0 ? 1 : 0, value, units[unit]);
}

std::string Describe(const engine::Cache& cache) {
  std::string text =
      "L" + std::to_string(cache.level) + (cache.instructions ? " code " : " ") + MemoryText(cache.bytes);
  return cache.cores > 1 ? text + " for " + std::to_string(cache.cores) + " cores" : text;
}

void PrintTable(const engine::Machine& machine, const std::vector<engine::Rates>& rates) {
  std::printf("%s, %d %s, %s%s, %s of memory\n", machine.model.empty() ? "processor" : machine.model.c_str(),
              machine.threads, machine.threads == 1 ? "core" : "cores", machine.simd.c_str(),
              machine.bf16 ? ", bf16" : "", MemoryText(machine.memory_bytes).c_str());
  const std::string caches = Joined(machine.caches, ", ", Describe);
  if (!caches.empty()) std::printf("caches: %s\n", caches.c_str());
  std::printf("\n%-8s %-12s %7s %5s %10s %14s %12s %12s %9s\n", "device", "cores", "threads", "node",
              "memory", "GFLOP/s a core", "cache GB/s", "memory GB/s", "wake µs");
  for (size_t d = 0; d < rates.size(); ++d) {
    const engine::Device& device = machine.devices[d];
    std::printf("%-8s %-12s %7d %5d %10s %14.0f %12.0f %12.0f %8.0f\n", device.name.c_str(),
                engine::FormatCpuList(device.cores).c_str(), device.threads, device.numa_node,
                MemoryText(device.memory_bytes).c_str(), rates[d].flops_per_us * 1e-3,
                rates[d].cached_bytes_per_us * 1e-3, rates[d].memory_bytes_per_us * 1e-3, rates[d].wake_us);
  }
}

void PrintJson(const engine::Machine& machine, const std::vector<engine::Rates>& rates) {
  nlohmann::ordered_json json{{"model", machine.model},
                              {"simd", machine.simd},
                              {"bf16", machine.bf16},
                              {"threads", machine.threads},
                              {"memory_bytes", machine.memory_bytes}};
  for (const engine::Cache& cache : machine.caches) {
    json["caches"].push_back({{"level", cache.level},
                              {"code", cache.instructions},
                              {"bytes", cache.bytes},
                              {"cores", cache.cores}});
  }
  for (size_t d = 0; d < rates.size(); ++d) {
    const engine::Device& device = machine.devices[d];
    json["devices"].push_back({{"name", device.name},
                               {"kind", device.kind},
                               {"cores", device.cores},
                               {"threads", device.threads},
                               {"numa_node", device.numa_node},
                               {"memory_bytes", device.memory_bytes},
                               {"f32_flops_per_core", rates[d].flops_per_us * 1e6},
                               {"cache_bytes_per_s", rates[d].cached_bytes_per_us * 1e6},
                               {"memory_bytes_per_s", rates[d].memory_bytes_per_us * 1e6},
                               {"wake_us", rates[d].wake_us}});
  }
  std::printf("%s\n", JsonText(json).c_str());
}

struct DevicesArguments {
  bool json = false;
  engine::DiscoverOptions discover;
};

}  // namespace

void AddDevicesCommand(CLI::App& app, int* result) {
  const auto a = std::make_shared<DevicesArguments>();
  auto* command =
      app.add_subcommand("devices", "show this machine's cores, caches and memory, with measured speeds");
  command->add_flag("--json", a->json, "print one JSON object");
  command->add_option("--cpu-devices", a->discover.cpu_devices, "divide the cores into this many devices")
      ->check(CLI::Range(1, 10'000));
  command->callback([a, result] {
    const auto machine = engine::Discover(a->discover);
    std::vector<engine::Rates> rates;
    for (const engine::Device& device : machine->devices) rates.push_back(engine::MeasureRates(device));
    (a->json ? PrintJson : PrintTable)(*machine, rates);
    *result = 0;
  });
}

}  // namespace leat
