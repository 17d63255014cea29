// Metrics with their names, and the text that Prometheus reads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/metrics.h"

namespace leat::observe {

enum class MetricType : uint8_t { kCounter, kGauge, kHistogram };

// A metric that some role exports. docs/metrics.md lists all (AllMetrics).
struct Metric {
  std::string_view name;
  MetricType type = MetricType::kGauge;
  std::string_view labels;  // their names, "role, index"
  std::string_view help;
};

using Labels = std::vector<std::pair<std::string, std::string>>;

// What is exported at one moment.
class Families {
 public:
  Families();
  ~Families();

  // Values that are not finite are left out: they are not known.
  void Add(const Metric& metric, double value, const Labels& labels = {});
  // `counts[i]`: how often the value was i; the last one includes all higher values.
  void AddHistogram(const Metric& metric, std::span<const uint64_t> counts, double sum);
  // `values`: times in seconds.
  void Add(const Metric& metric, const metrics::HistogramSnapshot& values, const Labels& labels);
  // All metrics of a registry, whose names may have labels.
  void Add(const metrics::Registry& registry);
  // The text format of Prometheus.
  std::string Text() const;

 private:
  struct Impl;  // of the library that writes the text
  std::unique_ptr<Impl> impl_;
};

}  // namespace leat::observe
