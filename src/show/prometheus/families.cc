#include "show/prometheus/families.h"

#include <charconv>
#include <cmath>
#include <variant>

namespace leat::observe {
namespace {

// Upper bounds of the buckets of a histogram, besides infinity.
constexpr uint64_t kBounds[] = {0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
// The same for times in seconds, as powers of two.
constexpr int kLeastSeconds = -13, kMostSeconds = 6;

// Counts are written without an exponent.
std::string NumberText(double x) {
  if (std::isinf(x)) return x > 0 ? "+Inf" : "-Inf";
  char text[400];
  const bool whole = std::abs(x) < 1e15 && x == std::trunc(x);
  const auto [end, error] = whole ? std::to_chars(text, text + sizeof text, static_cast<int64_t>(x))
                                  : std::to_chars(text, text + sizeof text, x);
  return {text, end};
}

// name{label="value",…} value
void AppendSample(std::string_view name, const Labels& labels, double value, std::string* out) {
  *out += name;
  for (const auto& [label, text] : labels) {
    *out += &label == &labels.front().first ? "{" : ",";
    *out += label + "=\"";
    for (const char c : text) {
      if (c == '\\' || c == '"') *out += '\\';
      *out += c == '\n' ? std::string("\\n") : std::string(1, c);
    }
    *out += '"';
  }
  *out += (labels.empty() ? " " : "} ") + NumberText(value) + "\n";
}

}  // namespace

std::string& Families::TextOf(const Metric& metric, std::string_view type) {
  const auto [at, fresh] = by_name_.try_emplace(std::string(metric.name), texts_.size());
  if (fresh) {
    const std::string& name = at->first;
    texts_.push_back("# HELP " + name + " " + std::string(metric.help) + "\n# TYPE " + name + " " +
                     std::string(type) + "\n");
  }
  return texts_[at->second];
}

void Families::Add(const Metric& metric, double value, const Labels& labels) {
  if (std::isfinite(value))
    AppendSample(metric.name, labels, value,
                 &TextOf(metric, metric.name.ends_with("_total") ? "counter" : "gauge"));
}

void Families::AddHistogram(const Metric& metric, std::span<const std::pair<double, uint64_t>> buckets,
                            uint64_t count, double sum) {
  std::string& text = TextOf(metric, "histogram");
  const std::string name(metric.name);
  AppendSample(name + "_count", {}, static_cast<double>(count), &text);
  AppendSample(name + "_sum", {}, sum, &text);
  Labels bounded = {{"le", ""}};
  for (const auto& [bound, below] : buckets) {
    bounded.back().second = NumberText(bound);
    AppendSample(name + "_bucket", bounded, static_cast<double>(below), &text);
  }
  bounded.back().second = "+Inf";
  AppendSample(name + "_bucket", bounded, static_cast<double>(count), &text);
}

void Families::AddHistogram(const Metric& metric, std::span<const uint64_t> counts, double sum) {
  std::vector<std::pair<double, uint64_t>> buckets;
  size_t at = 0;
  uint64_t count = 0;
  for (const uint64_t bound : kBounds) {
    for (; at < counts.size() && at <= bound; ++at) count += counts[at];
    buckets.emplace_back(static_cast<double>(bound), count);
  }
  for (; at < counts.size(); ++at) count += counts[at];
  AddHistogram(metric, buckets, count, sum);
}

// Powers of two, which are limits of its buckets, from a tenth of a millisecond to a minute.
void Families::Add(const Metric& metric, const metrics::HistogramSnapshot& values) {
  std::vector<std::pair<double, uint64_t>> buckets;
  size_t at = 0;
  uint64_t below = 0;
  for (int exponent = kLeastSeconds; exponent <= kMostSeconds; ++exponent) {
    const double bound = std::ldexp(1.0, exponent);
    for (; at < values.buckets.size() && metrics::Buckets::Lower(at) < bound; ++at)
      below += values.buckets[at];
    buckets.emplace_back(bound, below);
  }
  AddHistogram(metric, buckets, values.count, values.sum);
}

void Families::Add(const metrics::Registry& registry) {
  for (const metrics::Sample& sample : registry.Snapshot()) {
    const Metric metric{sample.name, sample.help};
    if (const auto* times = std::get_if<metrics::HistogramSnapshot>(&sample.value)) {
      Add(metric, *times);
    } else if (const auto* count = std::get_if<uint64_t>(&sample.value)) {
      Add(metric, static_cast<double>(*count));
    } else {
      Add(metric, std::get<double>(sample.value));
    }
  }
}

std::string Families::Text() const {
  std::string all;
  for (const std::string& text : texts_) all += text;
  return all;
}

}  // namespace leat::observe
