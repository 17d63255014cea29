// Metrics with their names, and the text that Prometheus reads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/metrics/metrics.h"
#include "show/report/figures.h"

namespace leat::observe {

// A metric that some role exports: a histogram, or a counter if its name ends with "_total", or a gauge.
// docs/metrics.md lists all.
struct Metric {
  std::string_view name;
  std::string_view help;
};

using Labels = std::vector<std::pair<std::string, std::string>>;

// The metrics that are exported at one moment.
class Families {
 public:
  // Values that are not finite are left out: they are not known.
  void Add(const Metric& metric, double value, const Labels& labels = {});
  // `counts[i]`: how often the value was i; the last one includes all higher values.
  void AddHistogram(const Metric& metric, std::span<const uint64_t> counts, double sum);
  // `values`: times in seconds.
  void Add(const Metric& metric, const metrics::HistogramSnapshot& values);
  // All metrics of a registry.
  void Add(const metrics::Registry& registry);
  // The figures of `from` that are metrics.
  template <class T>
  void Add(report::Figures<T> figures, const T& from, const Labels& labels = {}) {
    for (const auto& figure : figures) {
      if (figure.metric.empty()) continue;
      report::ForEachValue(figure, from, [&](const std::string& key, double value) {
        Labels all = labels;
        if (!key.empty()) all.emplace_back(figure.label, key);
        Add({figure.metric, figure.help}, value, all);
      });
    }
  }
  // The text format of Prometheus.
  std::string Text() const;

 private:
  // Text of the metric, to which samples are appended.
  std::string& TextOf(const Metric& metric, std::string_view type);
  void AddHistogram(const Metric& metric, std::span<const std::pair<double, uint64_t>> buckets,
                    uint64_t count, double sum);

  std::vector<std::string> texts_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

// Adds the kernel's figures of this process, by the names that all programs with metrics use. Reads /proc;
// does not block.
void AddProcess(Families* families);

// The metrics of a job, from its status (docs/status.md), which the coordinator exports. Not thread-safe.
class StatusFamilies {
 public:
  // Members beyond so many have no metrics of their own.
  static constexpr size_t kMostMembers = 1000;

  void Add(const report::JobStatus& status, Families* families);

 private:
  // After the loss of a server its events come back from the stream. They are counted once.
  std::optional<uint64_t> first_events_;
  uint64_t most_events_ = 0;
};

}  // namespace leat::observe
