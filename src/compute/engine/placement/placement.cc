#include "compute/engine/placement/placement.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>

#include "base/multiversion.h"
#include "base/text.h"
#include "compute/engine/compiler.h"
#include "compute/engine/devices/devices.h"
#include "compute/engine/run/thread_pool.h"
#include "compute/graph/builtin.h"
#include "compute/tensor/buffer.h"

namespace leat::engine {

namespace {

using Clock = std::chrono::steady_clock;

// Microseconds of the fastest of several calls, since other load can only make a call slower.
template <class F>
double Fastest(int calls, const F& f) {
  double best = 1e30;
  for (int i = 0; i < calls; ++i) {
    const auto begin = Clock::now();
    f();
    best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  return std::max(best, 1e-3);
}

// Independent sums, enough to hide the latency of two 16-lane units.
constexpr size_t kLanes = 16 * 12;
constexpr int kRounds = 4000;

LEAT_MULTIVERSION void MultiplyAdd(float* sums, float factor) {
  float local[kLanes];
  for (size_t i = 0; i < kLanes; ++i) local[i] = sums[i];
  for (int r = 0; r < kRounds; ++r) {
    for (size_t i = 0; i < kLanes; ++i) local[i] = local[i] * factor + factor;
  }
  for (size_t i = 0; i < kLanes; ++i) sums[i] = local[i];
}

double FlopsPerUs() {
  std::vector<float> sums(kLanes, 1.0f);
  return 2.0 * kLanes * kRounds / Fastest(30, [&] { MultiplyAdd(sums.data(), 0.5f); });
}

// Bytes read and written, in microseconds.
double BytesPerUs(size_t bytes, int calls) {
  const Buffer from(bytes), to(bytes);
  std::memset(from.data(), 1, bytes);
  const auto copy = [&] { std::memcpy(to.data(), from.data(), bytes); };
  copy();
  return 2.0 * static_cast<double>(bytes) / Fastest(calls, copy);
}

size_t OwnCacheBytes() {
  size_t bytes = 0;
  for (const Cache& cache : Caches(ReadFiles(), 0)) {
    if (!cache.instructions && cache.level <= 2) bytes = std::max<size_t>(bytes, cache.bytes);
  }
  return bytes != 0 ? bytes : size_t{256} << 10;
}

// Measures the time to wake a sleeping thread of a pool.
class WakeProbe final : private ThreadPool::Job {
 public:
  double Us() {
    pool_.Grow(1);
    double sum = 0;
    constexpr int kTimes = 20;
    for (int i = 0; i < kTimes; ++i) {
      awake_ = false;
      std::this_thread::sleep_for(std::chrono::microseconds(100));  // until it sleeps
      sum += Fastest(1, [&] {
        pool_.Submit(*this, 1);
        while (!awake_) std::this_thread::yield();
      });
    }
    pool_.CancelAndWait(*this);
    return std::min(sum / kTimes, 200.0);
  }

 private:
  void Help() override { awake_ = true; }

  ThreadPool pool_;
  std::atomic<bool> awake_{false};
};

Rates Measure() {
  Rates rates;
  rates.cache_bytes = OwnCacheBytes();
  rates.flops_per_us = FlopsPerUs();
  rates.cached_bytes_per_us = BytesPerUs(rates.cache_bytes / 4, 50);
  rates.memory_bytes_per_us = BytesPerUs(std::max<size_t>(8 * rates.cache_bytes, size_t{16} << 20), 5);
  rates.wake_us = WakeProbe().Us();
  // A tiny kernel, called as in a plan: indirectly, with its arguments.
  const std::unique_ptr<graph::Kernel> copy = MakeCopyKernel(64);
  const Buffer a(64), b(64);
  const std::byte* const in[] = {a.data()};
  std::byte* const out[] = {b.data()};
  constexpr int kCalls = 100;
  rates.call_us = Fastest(10,
                          [&] {
                            for (int i = 0; i < kCalls; ++i) copy->Run({in, out, nullptr});
                          }) /
                  kCalls;
  return rates;
}

}  // namespace

const Rates& MeasuredRates() {
  static const Rates rates = Measure();
  return rates;
}

Rates MeasureRates(const Device& device) {
  class Measurement final : public ThreadPool::Job {
   public:
    void Help() override {
      const Rates measured = Measure();
      std::lock_guard lock(mutex);
      rates = measured;
      done.notify_all();
    }
    std::mutex mutex;
    std::condition_variable done;
    std::optional<Rates> rates;
  } measurement;
  device.pool->Grow(1);
  device.pool->Submit(measurement, 1);
  {
    std::unique_lock lock(measurement.mutex);
    measurement.done.wait(lock, [&] { return measurement.rates.has_value(); });
  }
  device.pool->CancelAndWait(measurement);
  return *measurement.rates;
}

double EstimateUs(const Rates& rates, const graph::Op& op, std::span<const TensorType> inputs,
                  std::span<const TensorType> outputs) {
  double bytes = 0;
  for (const TensorType& type : inputs) bytes += static_cast<double>(type.bytes());
  for (const TensorType& type : outputs) bytes += static_cast<double>(type.bytes());
  const bool cached = bytes <= static_cast<double>(rates.cache_bytes);
  return rates.call_us + op.flops(inputs, outputs) / rates.flops_per_us +
         bytes / (cached ? rates.cached_bytes_per_us : rates.memory_bytes_per_us);
}

std::vector<double> NodeCosts(const graph::Graph& graph, const Rates& rates, const MeasuredCosts* measured) {
  std::vector<double> costs;
  for (const graph::Node& node : graph.nodes()) {
    double& cost = costs.emplace_back(0);
    if (!graph::NeedsKernel(*node.op)) continue;
    if (measured != nullptr) {
      if (const auto it = measured->find(node.name); it != measured->end()) {
        cost = it->second;
        continue;
      }
    }
    std::vector<TensorType> inputs;
    for (graph::Value v : node.inputs) inputs.push_back(graph.type(v));
    cost = EstimateUs(rates, *node.op, inputs, node.outputs);
  }
  return costs;
}

double TransferUs(const Rates& rates, size_t bytes) {
  // Read from another core's cache or memory, written to this one's.
  return rates.wake_us + 2 * static_cast<double>(bytes) / rates.memory_bytes_per_us;
}

namespace {

using graph::Node;
using graph::NodeIndex;
using graph::Value;

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr uint32_t kNowhere = UINT32_MAX;
// Several devices must reduce the estimated time to this fraction of one device's, since estimates are rough.
constexpr double kWorthwhile = 0.9;

// The device that each node requires, or kNowhere. Throws std::invalid_argument if a requirement cannot be
// met.
std::vector<uint32_t> Constraints(const PlacementRequest& request) {
  std::vector<uint32_t> wanted;
  std::set<std::string> unknown;
  std::string mistakes;
  const auto mistake = [&](const Node& node, const std::string& what) {
    mistakes += (mistakes.empty() ? "[" : "; [") + std::string(node.op->kind()) + "] " + what + ", node \"" +
                node.name + "\"" + (node.where.empty() ? "" : ", " + node.where);
  };
  const std::string names = Joined(request.devices, ", ", &Device::name);
  for (const Node& node : request.graph.nodes()) {
    wanted.push_back(kNowhere);
    if (node.device.empty()) continue;
    const auto found = std::ranges::find(request.devices, node.device, &Device::name);
    const auto index = static_cast<size_t>(found - request.devices.begin());
    if (found == request.devices.end()) {
      // Report each device once: it is usually wrong for a whole layer.
      if (unknown.insert(node.device).second)
        mistake(node, "unknown device \"" + node.device + "\"; available: " + names);
    } else if (request.costs_us[index][node.index] == kNever) {
      mistake(node, "no kernel for " + (node.outputs.empty() ? "" : node.outputs[0].ToString()) + " on \"" +
                        node.device + "\"");
    } else {
      wanted.back() = static_cast<uint32_t>(index);
    }
  }
  if (!mistakes.empty()) throw std::invalid_argument(mistakes);
  return wanted;
}

// Schedules all nodes onto a subset of the devices.
class Scheduler {
 public:
  Scheduler(const PlacementRequest& request, const std::vector<uint32_t>& wanted,
            const std::vector<double>& priority, std::vector<uint32_t> devices)
      : request_(request), graph_(request.graph), wanted_(wanted), allowed_(std::move(devices)) {
    placement_.priority = priority;
    placement_.devices.assign(graph_.nodes().size(), kNowhere);
    ends_.resize(graph_.nodes().size());
    for (const Device& device : request.devices) {
      free_.emplace_back(static_cast<size_t>(std::clamp(request.threads, 1, device.threads)), 0.0);
    }
  }

  // Empty if some node can run on none of the devices.
  std::optional<Placement> Run() {
    std::vector<NodeIndex> order(graph_.nodes().size());
    std::iota(order.begin(), order.end(), 0u);
    // Inputs have at least the priority of their readers and come before them, so the order stays
    // topological.
    std::ranges::stable_sort(order, std::greater<>(), [&](NodeIndex n) { return placement_.priority[n]; });
    for (NodeIndex n : order) {
      const Node& node = graph_.nodes()[n];
      if (graph::NeedsKernel(*node.op)) {
        if (!PlaceNode(node)) return std::nullopt;
      } else if (node.op->is_view()) {
        for (NodeIndex c : node.control) ends_[n] = std::max(ends_[n], ends_[c]);
        for (Value v : node.inputs) ends_[n] = std::max(ends_[n], ends_[v.node]);
      } else if (graph::IsFeed(*node.op) && wanted_[n] != kNowhere) {
        placement_.devices[n] = wanted_[n];
      }
    }
    PlaceTheRest();
    return std::move(placement_);
  }

 private:
  // The value that v is a view of, or v.
  Value Root(Value v) const {
    while (graph_.node(v).op->is_view() && v.output == 0) v = graph_.node(v).inputs[0];
    return v;
  }

  bool PlaceNode(const Node& node) {
    uint32_t best = kNowhere;
    double best_end = kNever;
    for (uint32_t d : allowed_) {
      if (wanted_[node.index] != kNowhere && wanted_[node.index] != d) continue;
      const double end = Begin(node, d) + request_.costs_us[d][node.index];
      if (end < best_end) {
        best = d;
        best_end = end;
      }
    }
    if (best == kNowhere) return false;
    for (Value v : node.inputs) Bring(Root(v), best);
    placement_.devices[node.index] = best;
    ends_[node.index] = best_end;
    *std::ranges::min_element(free_[best]) = best_end;
    placement_.finish_us = std::max(placement_.finish_us, best_end);
    return true;
  }

  // The earliest time at which the device can start the node.
  double Begin(const Node& node, uint32_t device) const {
    double begin = *std::ranges::min_element(free_[device]);
    for (Value v : node.inputs) begin = std::max({begin, ends_[v.node], There(Root(v), device)});
    for (NodeIndex c : node.control) {
      const bool crosses = placement_.devices[c] != kNowhere && placement_.devices[c] != device;
      begin = std::max(begin, ends_[c] + (crosses ? TransferUs(request_.rates, 0) : 0));
    }
    return begin;
  }

  // The earliest time at which the value can be on the device.
  double There(Value root, uint32_t device) const {
    const uint32_t at = placement_.devices[root.node];
    if (at == device || at == kNowhere) return ends_[root.node];
    const auto travelled = arrivals_.find({root, device});
    if (travelled != arrivals_.end()) return travelled->second;
    return ends_[root.node] + TransferUs(request_.rates, graph_.type(root).bytes());
  }

  void Bring(Value root, uint32_t device) {
    uint32_t& at = placement_.devices[root.node];
    if (at == kNowhere && graph::IsFeed(*graph_.node(root).op)) at = device;
    if (at != device && at != kNowhere) arrivals_[{root, device}] = There(root, device);
  }

  // Places views with their roots, and unread feeds and constants anywhere.
  void PlaceTheRest() {
    for (const Node& node : graph_.nodes()) {
      uint32_t& at = placement_.devices[node.index];
      if (node.op->is_view()) at = placement_.devices[node.inputs[0].node];
      if (at == kNowhere) at = allowed_.front();
    }
  }

  const PlacementRequest& request_;
  const graph::Graph& graph_;
  const std::vector<uint32_t>& wanted_;
  const std::vector<uint32_t> allowed_;
  Placement placement_;
  std::vector<double> ends_;                               // by node
  std::map<std::pair<Value, uint32_t>, double> arrivals_;  // arrival times of sent values, by device
  std::vector<std::vector<double>> free_;                  // by device and thread: when it becomes free
};

// By node: its cost on the cheapest device.
std::vector<double> LeastCosts(const PlacementRequest& request) {
  std::vector<double> least(request.graph.nodes().size(), kNever);
  for (const std::vector<double>& costs : request.costs_us) {
    for (size_t n = 0; n < least.size(); ++n) least[n] = std::min(least[n], costs[n]);
  }
  return least;
}

std::vector<double> Urgency(const graph::Graph& graph, const std::vector<double>& costs) {
  std::vector<double> priority = costs, after(costs.size());
  for (size_t n = costs.size(); n-- > 0;) {
    priority[n] += after[n];
    const Node& node = graph.nodes()[n];
    for (Value v : node.inputs) after[v.node] = std::max(after[v.node], priority[n]);
    for (NodeIndex c : node.control) after[c] = std::max(after[c], priority[n]);
  }
  return priority;
}

}  // namespace

Placement Place(const PlacementRequest& request) {
  const std::vector<uint32_t> wanted = Constraints(request);
  const std::vector<double> priority = Urgency(request.graph, LeastCosts(request));
  std::vector<uint32_t> all(request.devices.size());
  std::iota(all.begin(), all.end(), 0u);
  std::optional<Placement> best = Scheduler(request, wanted, priority, all).Run();
  LEAT_CHECK(best.has_value());  // every node has a kernel somewhere
  const double several_us = best->finish_us;
  for (uint32_t d : all) {
    if (std::ranges::any_of(wanted, [d](uint32_t w) { return w != kNowhere && w != d; })) continue;
    std::optional<Placement> single = Scheduler(request, wanted, priority, {d}).Run();
    if (!single || several_us < kWorthwhile * single->finish_us) continue;
    if (best->finish_us == several_us || single->finish_us < best->finish_us) best = std::move(single);
  }
  return *std::move(best);
}

}  // namespace leat::engine
