#include "base/metrics/detectors.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace leat::metrics {

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
