#include "observe/prometheus/families.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <cmath>
#include <functional>
#include <map>
#include <variant>

namespace leat::observe {
namespace {

// Upper bounds of the buckets of a histogram, besides infinity.
constexpr uint64_t kBounds[] = {0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
// The same for times in seconds, as powers of two.
constexpr int kLeastSeconds = -13, kMostSeconds = 6;

std::vector<prometheus::ClientMetric::Label> Convert(const Labels& labels) {
  std::vector<prometheus::ClientMetric::Label> converted;
  for (const auto& [name, value] : labels) converted.push_back({name, value});
  return converted;
}

prometheus::MetricType Convert(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return prometheus::MetricType::Counter;
    case MetricType::kGauge:
      return prometheus::MetricType::Gauge;
    case MetricType::kHistogram:
      return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

// `name{label="value",…}` of a registry, whose values have no quotation marks.
std::pair<std::string_view, Labels> Split(std::string_view full) {
  const size_t brace = full.find('{');
  std::pair<std::string_view, Labels> split{full.substr(0, brace), {}};
  if (brace == std::string_view::npos) return split;
  std::string_view rest = full.substr(brace + 1);
  while (true) {
    const size_t begin = rest.find("=\""), end = rest.find('"', begin + 2);
    if (begin == std::string_view::npos || end == std::string_view::npos) return split;
    split.second.emplace_back(rest.substr(0, begin), rest.substr(begin + 2, end - begin - 2));
    rest.remove_prefix(end + 1);
    if (rest.starts_with(',')) rest.remove_prefix(1);
  }
}

}  // namespace

struct Families::Impl {
  // A new sample of the metric.
  prometheus::ClientMetric& AddSample(const Metric& metric) {
    const auto [at, fresh] = by_name.try_emplace(std::string(metric.name), families.size());
    if (fresh) {
      families.push_back({.name = std::string(metric.name),
                          .help = std::string(metric.help),
                          .type = Convert(metric.type),
                          .metric = {}});
    }
    return families[at->second].metric.emplace_back();
  }

  std::vector<prometheus::MetricFamily> families;
  std::map<std::string, size_t, std::less<>> by_name;
};

Families::Families() : impl_(std::make_unique<Impl>()) {}
Families::~Families() = default;

void Families::Add(const Metric& metric, double value, const Labels& labels) {
  if (!std::isfinite(value)) return;
  auto& sample = impl_->AddSample(metric);
  sample.label = Convert(labels);
  sample.counter.value = sample.gauge.value = value;
}

void Families::AddHistogram(const Metric& metric, std::span<const uint64_t> counts, double sum) {
  auto& histogram = impl_->AddSample(metric).histogram;
  size_t at = 0;
  for (const uint64_t bound : kBounds) {
    for (; at < counts.size() && at <= bound; ++at) histogram.sample_count += counts[at];
    histogram.bucket.push_back({histogram.sample_count, static_cast<double>(bound)});
  }
  for (; at < counts.size(); ++at) histogram.sample_count += counts[at];
  histogram.sample_sum = sum;
}

// Powers of two, which are limits of its buckets, from a tenth of a millisecond to a minute.
void Families::Add(const Metric& metric, const metrics::HistogramSnapshot& values, const Labels& labels) {
  auto& sample = impl_->AddSample(metric);
  sample.label = Convert(labels);
  auto& histogram = sample.histogram;
  histogram.sample_count = values.count;
  histogram.sample_sum = values.sum;
  size_t at = 0;
  uint64_t below = 0;
  for (int exponent = kLeastSeconds; exponent <= kMostSeconds; ++exponent) {
    const double bound = std::ldexp(1.0, exponent);
    for (; at < values.buckets.size() && metrics::Buckets::Lower(at) < bound; ++at)
      below += values.buckets[at];
    histogram.bucket.push_back({below, bound});
  }
}

void Families::Add(const metrics::Registry& registry) {
  for (const metrics::Sample& sample : registry.Snapshot()) {
    const auto [name, labels] = Split(sample.name);
    if (const auto* count = std::get_if<uint64_t>(&sample.value)) {
      Add({name, MetricType::kCounter, "", sample.help}, static_cast<double>(*count), labels);
    } else if (const auto* level = std::get_if<double>(&sample.value)) {
      Add({name, MetricType::kGauge, "", sample.help}, *level, labels);
    } else {
      Add({name, MetricType::kHistogram, "", sample.help}, std::get<metrics::HistogramSnapshot>(sample.value),
          labels);
    }
  }
}

std::string Families::Text() const {
  return prometheus::TextSerializer().Serialize(impl_->families);
}

}  // namespace leat::observe
