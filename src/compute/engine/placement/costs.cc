#include "compute/engine/placement/costs.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "base/multiversion.h"
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

}  // namespace leat::engine
