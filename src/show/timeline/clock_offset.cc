#include "show/timeline/clock_offset.h"

#include <algorithm>
#include <utility>

namespace leat::timeline {

ClockSample Measure(Time sent, Time received, Time other) {
  const Duration half = (received - sent) / 2;
  // An additional tick covers the rounding of the divisions.
  return {.at = sent + half, .offset = other - (sent + half), .error = half + Duration(1)};
}

std::vector<ClockSample> Best(std::span<const ClockSample> samples) {
  if (samples.size() < 2) return {samples.begin(), samples.end()};
  const size_t questions = std::min(kQuestions, samples.size() / 2);
  std::vector<ClockSample> best;
  for (const auto& part : {samples.first(questions), samples.last(questions)})
    best.push_back(*std::ranges::min_element(part, {}, &ClockSample::error));
  return best;
}

ClockOffset::ClockOffset(std::vector<ClockSample> samples) : samples_(std::move(samples)) {}

Time ClockOffset::ToOther(Time mine) const {
  if (samples_.empty()) return mine;
  const auto after = std::ranges::find_if(samples_, [&](const auto& s) { return s.at > mine; });
  if (after == samples_.begin()) return mine + after->offset;
  const ClockSample& a = *std::prev(after);
  if (after == samples_.end()) return mine + a.offset;
  const double part = Seconds(mine - a.at) / Seconds(after->at - a.at);
  return mine + a.offset +
         Duration(static_cast<int64_t>(static_cast<double>((after->offset - a.offset).count()) * part));
}

Duration ClockOffset::error() const {
  Duration largest{0};
  for (const ClockSample& sample : samples_) largest = std::max(largest, sample.error);
  return largest;
}

}  // namespace leat::timeline
