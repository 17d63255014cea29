#include "base/metrics/drift.h"

#include <cmath>
#include <initializer_list>
#include <iterator>
#include <string>
#include <vector>

#include "base/fields/word.h"

namespace leat::metrics {
namespace {

constexpr std::string_view kDetectors[] = {"adwin", "page_hinkley"};  // in the order of the variant
constexpr double kSmallest = 1e-12;
constexpr int64_t kMany = 1 << 30;

void Allow(const Config& map, std::initializer_list<std::string> settings) {
  std::vector<std::string> known = {"detector", "on", "alarm", "factor", "events"};
  known.insert(known.end(), settings.begin(), settings.end());
  map.Allow(known);
}

AdwinOptions AdwinFrom(const Config& map) {
  Allow(map, {"delta", "clock", "max_buckets", "min_window_length", "grace_period"});
  AdwinOptions options;
  const auto count = [&](const char* key, uint32_t usual, int64_t least, int64_t most) {
    return static_cast<uint32_t>(map.Integer(key, usual, least, most));
  };
  options.delta = map.Number("delta", options.delta, kSmallest, 1 - kSmallest);
  options.clock = count("clock", options.clock, 1, kMany);
  options.max_buckets = count("max_buckets", options.max_buckets, 2, 1024);
  options.min_window_length = count("min_window_length", options.min_window_length, 1, kMany);
  options.grace_period = count("grace_period", options.grace_period, 0, kMany);
  return options;
}

PageHinkleyOptions PageHinkleyFrom(const Config& map) {
  Allow(map, {"min_instances", "delta", "threshold", "alpha", "mode"});
  PageHinkleyOptions options;
  options.min_instances =
      static_cast<uint32_t>(map.Integer("min_instances", options.min_instances, 1, kMany));
  options.delta = map.Number("delta", options.delta, 0, 1e9);
  options.threshold = map.Number("threshold", options.threshold, 0, 1e9);
  options.alpha = map.Number("alpha", options.alpha, 0, 1);
  options.mode = fields::FromWord(map, "mode", options.mode);
  return options;
}

}  // namespace

std::string_view DriftConfig::detector_name() const {
  return kDetectors[detector.index()];
}

DriftConfig DriftConfig::FromConfig(const Config& config) {
  const std::vector<std::string> detectors(std::begin(kDetectors), std::end(kDetectors));
  const std::string name = (config.IsMap() ? config.At("detector") : config).OneOf("detector", detectors);
  const Config map = config.IsMap() ? config : config.WithoutSettings();
  DriftConfig drift;
  if (name == kDetectors[0]) {
    drift.detector = AdwinFrom(map);
  } else {
    drift.detector = PageHinkleyFrom(map);
  }
  drift.on = fields::FromWord(map, "on", drift.on);
  drift.alarm = fields::FromWord(map, "alarm", drift.alarm);
  for (const char* key : {"factor", "events"}) {
    if (map.Has(key) && drift.alarm != Alarm::kRaiseRate)
      map.At(key).Fail(std::string(key) + " is a setting of alarm: raise_rate");
  }
  drift.factor = static_cast<float>(map.Number("factor", drift.factor, 1, 1000));
  drift.events =
      static_cast<uint64_t>(map.Integer("events", static_cast<int64_t>(drift.events), 1, int64_t{1} << 50));
  return drift;
}

DriftDetector::DriftDetector(const DriftConfig& config)
    : detector_(std::visit(
          [](const auto& options) -> std::variant<Adwin, PageHinkley> {
            if constexpr (std::is_same_v<decltype(options), const AdwinOptions&>) {
              return Adwin(options);
            } else {
              return PageHinkley(options);
            }
          },
          config.detector)) {}

bool DriftDetector::Update(double value) {
  if (!std::isfinite(value)) return false;
  return std::visit([value](auto& detector) { return detector.Update(value); }, detector_);
}

uint64_t DriftDetector::width() const {
  return std::visit([](const auto& detector) { return detector.width(); }, detector_);
}

double DriftDetector::mean() const {
  return std::visit([](const auto& detector) { return detector.mean(); }, detector_);
}

}  // namespace leat::metrics
