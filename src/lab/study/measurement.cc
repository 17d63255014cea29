#include "lab/study/measurement.h"

#include <cmath>
#include <stdexcept>

#include "base/text.h"

namespace leat::study {

void ThroughputMeter::Add(Time now, uint64_t events) {
  if (events <= seen_) return;
  seen_ = events;
  if (!begun_) begun_ = now;
  if (now - *begun_ < warm_up_) return;
  last_ = {now, events};
  if (!first_) first_ = last_;
}

Duration ThroughputMeter::measured() const {
  return first_ ? last_.at - first_->at : Duration(0);
}

std::optional<double> ThroughputMeter::rate() const {
  if (measured() <= Duration(0)) return std::nullopt;
  return static_cast<double>(last_.events - first_->events) / Seconds(measured());
}

std::string Target::Text() const {
  return Formatted("%s %.4g", figure.c_str(), value);
}

Target ParseTarget(const std::string& text) {
  Target target;
  const size_t equals = text.find('=');
  target.figure = text.substr(0, equals);
  const bool known = target.figure == "accuracy" || target.figure == "auc" || target.figure == "loss";
  target.value = ToNumber<double>(std::string_view(text).substr(equals + 1)).value_or(-1);
  if (!known || equals == text.npos || !std::isfinite(target.value) || target.value < 0)
    throw std::invalid_argument("target is '" + text + "'; must be accuracy=VALUE, auc=VALUE or loss=VALUE");
  return target;
}

void TargetWatch::OnStatus(const report::JobStatus& status) {
  // The figure of a window that is not full may be luck.
  if (!target_ || reached_ || status.window < target_->window) return;
  const report::Quality& quality = status.quality;
  const double value = target_->figure == "loss"  ? quality.loss
                       : target_->figure == "auc" ? quality.auc
                                                  : quality.accuracy.value_or(NAN);
  const auto events = static_cast<double>(status.events);
  const Moment now{status.training_s, events, value};
  const bool there = target_->figure == "loss" ? now.value <= target_->value : now.value >= target_->value;
  if (there) {
    // As if the figure had changed evenly since the last status, which may be a tenth of a second ago.
    const Moment& from = last_.value_or(now);
    const double part =
        from.value == now.value ? 1 : (target_->value - from.value) / (now.value - from.value);
    reached_ = {from.seconds + part * (now.seconds - from.seconds),
                from.events + part * (events - from.events)};
  } else if (!std::isnan(now.value)) {
    last_ = now;
  }
}

}  // namespace leat::study
