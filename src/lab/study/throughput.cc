#include "lab/study/throughput.h"

namespace leat::study {

void ThroughputMeter::Note(Time now, uint64_t events) {
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

}  // namespace leat::study
