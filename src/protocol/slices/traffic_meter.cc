#include "protocol/slices/traffic_meter.h"

namespace leat::protocol {

namespace {

constexpr double kBytesPerRequest = 64;
constexpr double kNewest = 0.25;  // weight of the last report in the mean

}  // namespace

void TrafficMeter::OnReport(Time now, NodeId server, const std::vector<SliceTraffic>& traffic) {
  for (const SliceTraffic& reported : traffic) {
    if (reported.slice.value >= slices_.size()) continue;
    Slice& slice = slices_[reported.slice.value];
    const double total =
        static_cast<double>(reported.bytes) + kBytesPerRequest * static_cast<double>(reported.pushes);
    // The totals begin anew with each server.
    if (slice.server == server && total >= slice.total && now > slice.at) {
      const double rate = (total - slice.total) / Seconds(now - slice.at);
      slice.rate = slice.rate < 0 ? rate : (1 - kNewest) * slice.rate + kNewest * rate;
    }
    slice.server = server;
    slice.total = total;
    slice.at = now;
  }
}

std::vector<double> TrafficMeter::Rates() const {
  std::vector<double> rates;
  rates.reserve(slices_.size());
  for (const Slice& slice : slices_) {
    if (slice.rate < 0) return {};
    rates.push_back(slice.rate);
  }
  return rates;
}

}  // namespace leat::protocol
