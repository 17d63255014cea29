#include "study/target.h"

#include <cmath>
#include <stdexcept>

#include "base/text.h"

namespace leat::study {

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

void TargetWatch::Note(const nlohmann::json& status) {
  if (!target_ || reached_ || !status.is_object()) return;
  const auto number = [&status](const std::string& key) {
    const auto at = status.find(key);
    return at != status.end() && at->is_number() ? at->get<double>() : NAN;
  };
  // The figure of a window that is not full may be luck.
  const double events = number("events"), covered = number("window");
  if (!(covered >= static_cast<double>(target_->window))) return;
  const Moment now{number("training_s"), events, number(target_->figure)};
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
