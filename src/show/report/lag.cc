#include "show/report/lag.h"

#include <algorithm>

namespace leat::report {

void Lag::OnStatus(Time now, std::span<const uint64_t> ends, std::span<const uint64_t> done) {
  partitions_.resize(ends.size());
  for (size_t p = 0; p < ends.size() && p < done.size(); ++p) {
    State& state = partitions_[p];
    state.done = done[p];
    if (state.ends.empty() || ends[p] > state.ends.back().second) state.ends.emplace_back(now, ends[p]);
    // The last one is kept: it tells where the partition ends.
    while (state.ends.size() > 1 && state.ends.front().second <= done[p]) state.ends.pop_front();
    if (state.ends.size() <= kMoments) continue;
    // Merging two neighbours assumes that the later end came with the earlier one.
    auto closest = state.ends.begin();
    for (auto at = state.ends.begin(); at + 2 < state.ends.end(); ++at) {
      if ((at + 1)->first - at->first < (closest + 1)->first - closest->first) closest = at;
    }
    closest->second = (closest + 1)->second;
    state.ends.erase(closest + 1);
  }
}

Time Lag::State::first() const {
  return std::ranges::upper_bound(ends, done, {}, &std::pair<Time, uint64_t>::second)->first;
}

Duration Lag::Oldest(Time now) const {
  Duration oldest{0};
  for (const State& state : partitions_) {
    if (state.behind()) oldest = std::max(oldest, now - state.first());
  }
  return oldest;
}

std::vector<Lag::Partition> Lag::Behind(Time now, size_t most) const {
  std::vector<Partition> behind;
  for (uint32_t p = 0; p < partitions_.size(); ++p) {
    const State& state = partitions_[p];
    if (!state.behind()) continue;
    behind.push_back({.partition = p,
                      .end = state.ends.back().second,
                      .events = state.ends.back().second - state.done,
                      .seconds = Seconds(now - state.first())});
  }
  std::ranges::sort(behind, std::ranges::greater(), &Partition::events);
  if (behind.size() > most) behind.resize(most);
  return behind;
}

}  // namespace leat::report
