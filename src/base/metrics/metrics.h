// Counters, gauges and histograms, cheap enough for hot paths, and a registry of them by name.
//
// There is no global registry. A module that does I/O receives a Registry, looks up its metrics once and
// keeps the references. Names follow Prometheus: `leat_net_bytes_sent_total`, units in seconds and bytes.
// Everything is thread-safe. A snapshot is not atomic across metrics: values may be some nanoseconds apart.
#pragma once

#include <sys/types.h>
#include <time.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"

namespace leat::metrics {

// Monotonic. Aligned to a cache line, so that threads with different counters do not contend.
class alignas(64) Counter {
 public:
  void Add(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

class alignas(64) Gauge {
 public:
  void Set(double value) { value_.store(value, std::memory_order_relaxed); }
  void Add(double by) { value_.fetch_add(by, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

// Buckets of a histogram: eight for each power of two from 2^-30 (a nanosecond, in seconds) to 2^34 (16 GiB),
// so the relative error is at most 1/8. The first bucket also counts all smaller values, the last all larger.
struct Buckets {
  static constexpr int kLowest = -30, kHighest = 34;
  static constexpr size_t kCount = 8 * (kHighest - kLowest);
  static constexpr size_t Of(double value) {
    // The exponent and the first three bits of the fraction, read as one number.
    constexpr int64_t kFirst = int64_t{1023 + kLowest} << 3;
    const int64_t place = static_cast<int64_t>(std::bit_cast<uint64_t>(value) >> 49) - kFirst;
    if (!(value > 0) || place < 0) return 0;
    return place < static_cast<int64_t>(kCount) ? static_cast<size_t>(place) : kCount - 1;
  }
  // Bucket i covers [Lower(i), Lower(i + 1)).
  static constexpr double Lower(size_t bucket) {
    return std::bit_cast<double>((static_cast<uint64_t>(bucket) + (uint64_t{1023 + kLowest} << 3)) << 49);
  }
};

// The state of a histogram at one moment.
struct HistogramSnapshot {
  uint64_t count = 0;
  double sum = 0;
  std::vector<uint64_t> buckets = std::vector<uint64_t>(Buckets::kCount);
};

class alignas(64) Histogram {
 public:
  // Ignores NaN.
  void Record(double value) {
    if (value != value) return;
    buckets_[Buckets::Of(value)].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
  }
  HistogramSnapshot Snapshot() const;

 private:
  std::atomic<double> sum_{0};
  std::array<std::atomic<uint64_t>, Buckets::kCount> buckets_{};
};

struct Sample {
  std::string name;
  std::string help;
  std::variant<uint64_t, double, HistogramSnapshot> value;  // value of a counter, a gauge, a histogram
};

class Registry {
 public:
  Registry() = default;
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // The metric with this name, created by the first call. The reference is valid while the registry lives.
  // Using one name for two kinds of metric is a bug and aborts.
  Counter& counter(std::string_view name, std::string_view help = "");
  Gauge& gauge(std::string_view name, std::string_view help = "");
  Histogram& histogram(std::string_view name, std::string_view help = "");

  // All metrics, sorted by name.
  std::vector<Sample> Snapshot() const;

 private:
  struct Entry {
    std::string help;
    std::variant<Counter*, Gauge*, Histogram*> metric;
  };
  template <class T>
  T& Get(std::deque<T>& all, std::string_view name, std::string_view help);

  mutable std::mutex mutex_;
  std::deque<Counter> counters_;
  std::deque<Gauge> gauges_;
  std::deque<Histogram> histograms_;
  std::map<std::string, Entry, std::less<>> by_name_;
};

// Processor time of all threads, in seconds. pid 0 is the calling process. kNotFound if there is no such
// process, or if it has ended and was waited for. Thread-safe.
inline Result<double> CpuSeconds(pid_t pid = 0) {
  clockid_t clock = CLOCK_PROCESS_CPUTIME_ID;
  timespec used{};
  if ((pid != 0 && clock_getcpuclockid(pid, &clock) != 0) || clock_gettime(clock, &used) != 0)
    return Status(Code::kNotFound, "no such process: " + std::to_string(pid));
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

}  // namespace leat::metrics
