#include "protocol/scaling/worker_gains.h"

#include <algorithm>
#include <iterator>

namespace leat::protocol {

std::optional<double> WorkerGains::Gain(uint32_t workers) const {
  const auto here = sizes_.find(workers);
  if (here == sizes_.end() || here == sizes_.begin() || !here->second.settled) return std::nullopt;
  const auto& [fewer, before] = *std::prev(here);
  const double gain = (here->second.throughput - before.throughput) / (workers - fewer);
  return gain > 0 ? std::optional(gain) : std::nullopt;
}

bool WorkerGains::Knows(uint32_t workers, Time since) const {
  const auto at = sizes_.find(workers);
  return at != sizes_.end() && at->second.at >= since;
}

double WorkerGains::AtLeast(uint32_t workers, uint32_t present, double throughput) const {
  if (const auto at = sizes_.find(workers); at != sizes_.end()) return at->second.throughput;
  const auto next = sizes_.upper_bound(workers);
  const uint32_t fewer = next == sizes_.begin() ? 0 : std::prev(next)->first;
  const double before = next == sizes_.begin() ? 0 : std::prev(next)->second.throughput;
  // On the line from `fewer` to a larger size.
  const auto towards = [&](uint32_t more, double above) {
    return before + (above - before) * (workers - fewer) / (more - fewer);
  };
  double least = before;
  if (next != sizes_.end()) least = std::max(least, towards(next->first, next->second.throughput));
  // They may be able to do more than what is seen now.
  if (present >= workers) least = std::max(least, towards(present, throughput));
  return least;
}

}  // namespace leat::protocol
