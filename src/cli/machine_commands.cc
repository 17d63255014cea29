// leat devices: this machine's processors, caches and memory, with measured speeds.
// leat graph: a job's compute graph as built and after the passes, and the kernels of its plan on this
// machine.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/exit_status.h"
#include "base/json/text.h"
#include "base/rng.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "compute/engine/devices/devices.h"
#include "compute/engine/lower.h"
#include "compute/engine/placement/placement.h"
#include "job/job.h"
#include "run/launcher/output/output_file.h"

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

int ShowDevices(const DevicesArguments& a) {
  const auto machine = engine::Discover(a.discover);
  std::vector<engine::Rates> rates;
  for (const engine::Device& device : machine->devices) rates.push_back(engine::MeasureRates(device));
  (a.json ? PrintJson : PrintTable)(*machine, rates);
  return 0;
}

struct GraphArguments {
  job::JobSource source;
  job::JobOverrides overrides;
  uint32_t batch = 0;  // 0: the job's
  bool scoring = false;
  std::string dot;
  std::optional<int> cpu_devices, inter_op, intra_op;  // unset: the job's
};

std::string DotString(const std::string& text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

// The graph in Graphviz's language: inputs as boxes, control dependencies dashed.
std::string Dot(const graph::Graph& graph) {
  std::string text = "digraph step {\n  node [shape=ellipse, fontname=\"sans-serif\"];\n";
  for (const graph::Node& node : graph.nodes()) {
    const std::string id = "  n" + std::to_string(node.index);
    std::string label = node.name + "\n" + std::string(node.op->kind());
    if (!node.device.empty()) label += " on " + node.device;
    for (size_t at = label.find('\n'); at != std::string::npos; at = label.find('\n'))
      label.replace(at, 1, " | ");
    text += id + " [label=" + DotString(label) + (node.inputs.empty() ? ", shape=box" : "") + "];\n";
    for (graph::Value v : node.inputs) {
      text += "  n" + std::to_string(v.node) + " ->" + id + " [label=" + DotString(graph.type(v).ToString()) +
              "];\n";
    }
    for (graph::NodeIndex c : node.control)
      text += "  n" + std::to_string(c) + " ->" + id + " [style=dashed];\n";
  }
  return text + "}\n";
}

void PrintGraph(const std::string& title, const graph::Graph& graph) {
  std::printf("%s: %zu nodes\n", title.c_str(), graph.nodes().size());
  const std::string text = graph.ToString();
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    std::printf("  %s\n", text.substr(begin, end - begin).c_str());
    begin = end + 1;
  }
  std::printf("\n");
}

// Binds arbitrary values to the plan's inputs: ids of 0 (any table has that row) or normal features, and
// small weights.
std::vector<Tensor> BindFeeds(engine::Plan* plan, const nn::Model& model, const nn::StepGraph& step) {
  Rng rng(1);
  std::vector<Tensor> tensors;
  const auto limits = model.feature_ids();
  const std::set<graph::Value> variables(step.variables.begin(), step.variables.end());
  for (graph::Value feed : plan->feeds()) {
    const Tensor& tensor = tensors.emplace_back(step.graph.type(feed));
    plan->Bind(feed, tensor.raw());
    if (tensor.dtype() != DType::kF32) continue;
    size_t i = 0;
    for (float& x : tensor.as<float>()) {
      const bool id = !limits.empty() && limits[i++ % limits.size()] > 0;
      if (variables.contains(feed)) x = static_cast<float>(rng.Uniform() - 0.5) * 0.1f;
      if (feed == step.features && !id) x = static_cast<float>(rng.Normal());
      if (feed == step.weights) x = 1;
    }
  }
  return tensors;
}

std::vector<engine::StepTime> Profile(engine::Plan* plan) {
  plan->Run();
  std::vector<engine::StepTime> times = plan->Profile(1);
  double us = 1;
  for (const engine::StepTime& time : times) us += time.us;
  return plan->Profile(static_cast<int>(std::clamp(5e5 / us, 3.0, 500.0)));
}

void PrintPlan(engine::Plan* plan) {
  const std::string devices = Joined(plan->devices());
  std::printf("plan: %zu kernels on %s, %d %s; arena %.1f KiB, largest live set %.1f KiB\n", plan->steps(),
              devices.c_str(), plan->threads(), plan->threads() == 1 ? "thread" : "threads",
              static_cast<double>(plan->arena_bytes()) / 1024,
              static_cast<double>(plan->largest_live_bytes()) / 1024);
  const std::vector<engine::StepTime> times = Profile(plan);
  double total = 0;
  for (const engine::StepTime& time : times) total += time.us;
  std::printf("  %10s %6s %8s %7s  kernel\n", "µs", "share", "GFLOP/s", "GB/s");
  std::string device;
  for (const engine::StepTime& time : times) {
    if (time.device != device && plan->devices().size() > 1) std::printf("  on %s\n", time.device.c_str());
    device = time.device;
    const double us = std::max(time.us, 1e-3);
    std::printf("  %9.1f %4.0f %% %8.1f %7.1f  %s\n", time.us, 100 * time.us / std::max(total, 1e-9),
                time.flops / us * 1e-3, time.bytes / us * 1e-3, time.text.c_str());
  }
  std::printf("  %9.1f  all kernels, one after the other\n", total);
}

int ShowGraph(const GraphArguments& a) {
  RefuseIf(a.source.file.empty(), "graph needs a job file");
  auto job = job::Job::Load(a.source, a.overrides);
  job.compute.inter_op_threads = a.inter_op.value_or(job.compute.inter_op_threads);
  job.compute.intra_op_threads = a.intra_op.value_or(job.compute.intra_op_threads);
  job.compute.cpu_devices = a.cpu_devices.value_or(job.compute.cpu_devices);
  const uint32_t batch = a.batch > 0 ? a.batch : job.batch_size;
  const nn::StepGraph step = job.model->Build(batch, !a.scoring);
  std::vector<graph::Value> fetches{step.loss, step.scores};
  fetches.insert(fetches.end(), step.gradients.begin(), step.gradients.end());

  const engine::PlanOptions options = job.Plan(job::WithPrecision(job, Kernels()));
  const graph::Graph lowered = engine::Lower(step.graph, fetches, options).graph;
  const auto plan = engine::CompileMeasured(step.graph, fetches, options);
  if (!a.dot.empty()) ThrowIfError(launcher::WriteOutput(a.dot, Dot(lowered)));

  std::printf("%s: %s\n\n", job.name.c_str(), job.model->ToString().c_str());
  PrintGraph(std::string(a.scoring ? "scoring" : "training step") + ", batch " + std::to_string(batch),
             step.graph);
  PrintGraph("after the passes", lowered);
  const std::vector<Tensor> feeds = BindFeeds(plan.get(), *job.model, step);
  PrintPlan(plan.get());
  return 0;
}

}  // namespace

void AddDevicesCommand(CLI::App& app, int* result) {
  const auto [command, a] =
      AddCommand(app, result, "devices", "show this machine's cores, caches and memory, with measured speeds",
                 ShowDevices);
  command->add_flag("--json", a->json, "print one JSON object");
  command->add_option("--cpu-devices", a->discover.cpu_devices, "divide the cores into this many devices")
      ->check(CLI::Range(1, 10'000));
}

void AddGraphCommand(CLI::App& app, int* result) {
  const auto [command, a] =
      AddCommand(app, result, "graph",
                 "show a job's compute graph before and after optimization, and its kernels", ShowGraph);
  command->add_option("job", a->source.file, "job file (YAML)");
  AddData(command, &a->overrides.data);
  AddNumber(command, "--batch", &a->batch, "batch size (default: the job's)", 1, 1'000'000);
  command->add_flag("--scoring", a->scoring, "show the graph that only scores, without gradients");
  command->add_option("--dot", a->dot, "write the optimized graph to this file, for Graphviz");
  AddNumber(command, "--cpu-devices", &a->cpu_devices,
            "divide the cores into this many devices (default: the job's)", 1, 10'000);
  AddNumber(command, "--inter-op", &a->inter_op,
            "kernels that run in parallel; 0: one per core (default: the job's)", 0, 10'000);
  AddNumber(command, "--intra-op", &a->intra_op, "threads per kernel; 0: one per core (default: the job's)",
            0, 10'000);
}

}  // namespace leat
