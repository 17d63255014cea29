// Counters, gauges and histograms, cheap enough for hot paths, and the registry that names them.
//
// A module that does I/O is given a Registry, asks it once for what it counts and keeps the references; there
// is no global one. Names follow Prometheus: `leat_net_bytes_sent_total`, seconds and bytes as units, labels
// in the name: `leat_pushes_total{server="3"}`. Everything is thread-safe; values of different metrics in one
// snapshot may be some nanoseconds apart.
#pragma once

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

namespace leat::metrics {

// Only grows. Each has a cache line of its own, so that threads that count different things do not meet.
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

// Buckets of a histogram: eight in each power of two from 2^-30 (a nanosecond, in seconds) to 2^34 (16 GiB),
// so a value is known within 1/8 of itself. The first bucket also takes all that is smaller, the last all
// that is larger.
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
  // Values from Lower(i) up to Lower(i + 1) are in bucket i.
  static constexpr double Lower(size_t bucket) {
    return std::bit_cast<double>((static_cast<uint64_t>(bucket) + (uint64_t{1023 + kLowest} << 3)) << 49);
  }
};

// What a histogram held at one moment. Snapshots of the same histogram subtract to a window, of several add
// up.
struct HistogramSnapshot {
  uint64_t count = 0;
  double sum = 0;
  std::vector<uint64_t> buckets = std::vector<uint64_t>(Buckets::kCount);

  // 0 when there is nothing.
  double mean() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
  // The value that a share of q of all are at or below, 0 ≤ q ≤ 1, within the width of its bucket; 0 when
  // there is nothing.
  double Quantile(double q) const;
  HistogramSnapshot& operator+=(const HistogramSnapshot& other);
  // `earlier` was taken before this one.
  HistogramSnapshot& operator-=(const HistogramSnapshot& earlier);
};

class alignas(64) Histogram {
 public:
  // Values that are not numbers are left out.
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
  std::variant<uint64_t, double, HistogramSnapshot> value;  // of a counter, a gauge, a histogram
};

class Registry {
 public:
  Registry() = default;
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // The metric of that name, made at the first call; the reference is good as long as the registry lives.
  // Asking for one name as two kinds is a bug.
  Counter& counter(std::string_view name, std::string_view help = "");
  Gauge& gauge(std::string_view name, std::string_view help = "");
  Histogram& histogram(std::string_view name, std::string_view help = "");

  // Everything, sorted by name.
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

}  // namespace leat::metrics
