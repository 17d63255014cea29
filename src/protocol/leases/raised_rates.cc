#include "protocol/leases/raised_rates.h"

#include <algorithm>
#include <utility>

namespace leat::protocol {

bool RateRaised::Before(const std::vector<Position>& watermark) const {
  for (size_t p = 0; p < last.size(); ++p) {
    if (p >= watermark.size() || watermark[p] < last[p]) return false;
  }
  return true;
}

bool RaisedRates::Add(RateRaised span) {
  if (!spans_.empty() && spans_.back().first == span.first) return false;
  spans_.push_back(std::move(span));
  return true;
}

float RaisedRates::At(uint32_t partition, Position begin) const {
  float factor = 1;
  for (const RateRaised& span : spans_) {
    if (partition >= span.first.size() || partition >= span.last.size()) continue;
    if (span.first[partition] <= begin && begin < span.last[partition])
      factor = std::max(factor, span.factor);
  }
  return factor;
}

void RaisedRates::DropBefore(const std::vector<Position>& watermark) {
  std::erase_if(spans_, [&](const RateRaised& span) { return span.Before(watermark); });
}

}  // namespace leat::protocol
