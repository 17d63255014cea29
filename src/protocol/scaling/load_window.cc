#include "protocol/scaling/load_window.h"

#include <algorithm>

namespace leat::protocol {
namespace {

constexpr Duration kSpacing = std::chrono::milliseconds(200);
constexpr Duration kLongestRecent = std::chrono::seconds(30);
constexpr uint64_t kMoves = 10;

}  // namespace

bool LoadWindow::Add(Time now, uint64_t arrived, uint64_t trained) {
  bool same = true;
  if (!samples_.empty()) {
    const Sample& last = samples_.back();
    same = arrived >= last.arrived && trained >= last.trained;
    if (!same) samples_.clear();
    if (same && now - last.at < kSpacing) return true;
  }
  Sample sample{.at = now, .arrived = arrived, .trained = trained};
  if (!samples_.empty()) sample.moves = samples_.back().moves + (trained > samples_.back().trained ? 1 : 0);
  samples_.push_back(sample);
  if (const auto recent = Recent()) samples_.back().arrival = recent->arrival;
  while (now - samples_.front().at > kLength) samples_.pop_front();
  return same;
}

std::optional<LoadWindow::Rates> LoadWindow::Between(const Sample& first, const Sample& last) const {
  const Duration span = last.at - first.at;
  if (span < kShortest) return std::nullopt;
  return Rates{.arrival = static_cast<double>(last.arrived - first.arrived) / Seconds(span),
               .throughput = static_cast<double>(last.trained - first.trained) / Seconds(span)};
}

std::optional<LoadWindow::Rates> LoadWindow::Since(Time from) const {
  const auto first = std::ranges::lower_bound(samples_, from, {}, &Sample::at);
  if (first == samples_.end()) return std::nullopt;
  return Between(*first, samples_.back());
}

std::optional<LoadWindow::Rates> LoadWindow::Recent() const {
  if (samples_.empty()) return std::nullopt;
  const Sample& last = samples_.back();
  for (auto first = samples_.rbegin(); first != samples_.rend(); ++first) {
    const Duration span = last.at - first->at;
    if (span >= kShortest && (last.moves - first->moves >= kMoves || span >= kLongestRecent))
      return Between(*first, last);
  }
  return Between(samples_.front(), last);
}

double LoadWindow::PeakArrival(Time from) const {
  double peak = 0;
  for (auto sample = samples_.rbegin(); sample != samples_.rend() && sample->at >= from; ++sample)
    peak = std::max(peak, sample->arrival);
  return peak;
}

}  // namespace leat::protocol
