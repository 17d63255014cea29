#include "base/metrics/drift.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <string>
#include <vector>

#include "base/check.h"
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

// ---- detectors

namespace {

double SizeOf(size_t row) {
  return static_cast<double>(uint64_t{1} << row);
}

}  // namespace

Adwin::Adwin(const AdwinOptions& options) : options_(options) {
  LEAT_CHECK(options.clock > 0 && options.max_buckets > 1 && options.min_window_length > 0);
  Reset();
}

void Adwin::Reset() {
  alarm_ = false;
  values_ = 0;
  width_ = total_ = variance_ = 0;
  rows_.assign(1, {});
}

bool Adwin::Update(double value) {
  if (alarm_) Reset();
  Insert(value);
  alarm_ = ++values_ % options_.clock == 0 && width_ > options_.grace_period && Check();
  return alarm_;
}

void Adwin::Insert(double value) {
  rows_[0].push_back({value, 0});
  width_ += 1;
  if (width_ > 1) {
    const double distance = value - total_ / (width_ - 1);
    variance_ += (width_ - 1) * distance * distance / width_;
  }
  total_ += value;
  Compress();
}

// A row with one bucket too many hands its two oldest, merged, to the next row.
void Adwin::Compress() {
  for (size_t i = 0; i < rows_.size() && rows_[i].size() > options_.max_buckets; ++i) {
    const Bucket a = rows_[i][0], b = rows_[i][1];
    const double n = SizeOf(i), difference = a.total / n - b.total / n;
    const Bucket merged{a.total + b.total, a.variance + b.variance + n * 0.5 * difference * difference};
    rows_[i].erase(rows_[i].begin(), rows_[i].begin() + 2);
    if (i + 1 == rows_.size()) rows_.emplace_back();
    rows_[i + 1].push_back(merged);
  }
}

void Adwin::DropOldest() {
  const double n = SizeOf(rows_.size() - 1);
  const Bucket oldest = rows_.back().front();
  width_ -= n;
  total_ -= oldest.total;
  const double distance = oldest.total / n - total_ / width_;
  variance_ -= oldest.variance + n * width_ * distance * distance / (n + width_);
  rows_.back().erase(rows_.back().begin());
  if (rows_.back().empty()) rows_.pop_back();
}

bool Adwin::Check() {
  bool changed = false;
  for (; FindsCut(); changed = true) DropOldest();
  return changed;
}

bool Adwin::FindsCut() const {
  double old_count = 0, old_total = 0, new_count = width_, new_total = total_;
  for (size_t i = rows_.size(); i-- > 0;) {
    for (const Bucket& bucket : rows_[i]) {
      old_count += SizeOf(i);
      new_count -= SizeOf(i);
      old_total += bucket.total;
      new_total -= bucket.total;
      // Covers the end of the window, too, where nothing is left on the new side.
      if (old_count < options_.min_window_length || new_count < options_.min_window_length) continue;
      if (Differs(old_count, new_count, old_total / old_count - new_total / new_count)) return true;
    }
  }
  return false;
}

bool Adwin::Differs(double old_count, double new_count, double mean_difference) const {
  const double confidence = std::log(2 * std::log(width_) / options_.delta);
  const double shares =
      1 / (old_count - options_.min_window_length + 1) + 1 / (new_count - options_.min_window_length + 1);
  const double epsilon =
      std::sqrt(2 * shares * (variance_ / width_) * confidence) + 2.0 / 3.0 * confidence * shares;
  return std::abs(mean_difference) > epsilon;
}

bool PageHinkley::Update(double value) {
  if (state_.alarm) state_ = {};
  State& s = state_;
  s.count += 1;
  s.mean += 1 / s.count * (value - s.mean);
  const double deviation = value - s.mean;
  s.increase = options_.alpha * s.increase + deviation - options_.delta;
  s.decrease = options_.alpha * s.decrease + deviation + options_.delta;
  s.least_increase = std::min(s.least_increase, s.increase);
  s.most_decrease = std::max(s.most_decrease, s.decrease);
  if (s.count < options_.min_instances) return false;
  using Mode = PageHinkleyOptions::Mode;
  const bool up = options_.mode != Mode::kDown && s.increase - s.least_increase > options_.threshold;
  const bool down = options_.mode != Mode::kUp && s.most_decrease - s.decrease > options_.threshold;
  return s.alarm = up || down;
}

}  // namespace leat::metrics
