#include "base/metrics/metrics.h"

#include <type_traits>

#include "base/check.h"

namespace leat::metrics {

HistogramSnapshot Histogram::Snapshot() const {
  HistogramSnapshot snapshot;
  snapshot.sum = sum_.load(std::memory_order_relaxed);
  for (size_t i = 0; i < buckets_.size(); ++i) {
    snapshot.buckets[i] = buckets_[i].load(std::memory_order_relaxed);
    snapshot.count += snapshot.buckets[i];
  }
  return snapshot;
}

template <class T>
T& Registry::Get(std::deque<T>& all, std::string_view name, std::string_view help) {
  const std::lock_guard lock(mutex_);
  auto found = by_name_.find(name);
  if (found == by_name_.end()) {
    found = by_name_.emplace(std::string(name), Entry{std::string(help), &all.emplace_back()}).first;
  }
  LEAT_CHECK(std::holds_alternative<T*>(found->second.metric));
  return *std::get<T*>(found->second.metric);
}

Counter& Registry::counter(std::string_view name, std::string_view help) {
  return Get(counters_, name, help);
}
Gauge& Registry::gauge(std::string_view name, std::string_view help) {
  return Get(gauges_, name, help);
}
Histogram& Registry::histogram(std::string_view name, std::string_view help) {
  return Get(histograms_, name, help);
}

std::vector<Sample> Registry::Snapshot() const {
  const std::lock_guard lock(mutex_);
  std::vector<Sample> samples;
  samples.reserve(by_name_.size());
  for (const auto& [name, entry] : by_name_) {
    auto& sample = samples.emplace_back(Sample{name, entry.help, {}});
    std::visit(
        [&](const auto* metric) {
          using T = std::remove_cvref_t<decltype(*metric)>;
          if constexpr (std::is_same_v<T, Histogram>) {
            sample.value = metric->Snapshot();
          } else {
            sample.value = metric->value();
          }
        },
        entry.metric);
  }
  return samples;
}

}  // namespace leat::metrics
