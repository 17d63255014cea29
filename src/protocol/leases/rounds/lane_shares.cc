#include "protocol/leases/rounds/lane_shares.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>

namespace leat::protocol {
namespace {

// Each of the lanes goes to the worker that has the shortest time with it. That minimizes the longest time.
std::vector<uint32_t> Fastest(uint32_t width, const std::vector<double>& batch_s) {
  std::vector<uint32_t> counts(batch_s.size(), 1);
  using Next = std::pair<double, size_t>;  // time with another lane, and rank
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  for (size_t rank = 0; rank < batch_s.size(); ++rank) next.emplace(2 * batch_s[rank], rank);
  for (size_t lane = batch_s.size(); lane < width; ++lane) {
    const size_t rank = next.top().second;
    next.pop();
    ++counts[rank];
    next.emplace((counts[rank] + 1) * batch_s[rank], rank);
  }
  return counts;
}

}  // namespace

void LaneShares::SetWorkers(std::vector<NodeId> workers) {
  if (workers == workers_) return;
  workers_ = std::move(workers);
  ends_.clear();
  measured_ = true;
}

void LaneShares::OnProgress(Time now, NodeId worker, uint64_t batches, double waited_s) {
  const auto [at, fresh] = paces_.try_emplace(worker);
  Pace& pace = at->second;
  const bool going = !fresh && batches >= pace.batches && waited_s >= pace.waited_s;
  if (going && (now - pace.since < kWindow || batches - pace.batches < kBatches)) return;
  if (going) {
    const double busy_s = Seconds(now - pace.since) - (waited_s - pace.waited_s);
    const double batch_s = busy_s / static_cast<double>(batches - pace.batches);
    if (std::isfinite(batch_s) && batch_s > 0) {
      pace.batch_s = pace.batch_s > 0 ? (pace.batch_s + batch_s) / 2 : batch_s;
      measured_ = true;
    }
  }
  pace.since = now;
  pace.batches = batches;
  pace.waited_s = std::isfinite(waited_s) ? waited_s : 0;
}

void LaneShares::Choose(uint32_t width) {
  if (!std::exchange(measured_, false) || width <= workers_.size()) return;
  std::vector<double> batch_s;
  std::vector<uint32_t> counts;
  for (uint32_t rank = 0; rank < workers_.size(); ++rank) {
    const auto pace = paces_.find(workers_[rank]);
    if (pace == paces_.end() || pace->second.batch_s <= 0) return;
    batch_s.push_back(pace->second.batch_s);
    const auto [begin, end] = LanesOf(rank, width);
    counts.push_back(end - begin);
  }
  if (batch_s.empty()) return;
  const std::vector<uint32_t> fastest = Fastest(width, batch_s);
  if (StepTime(batch_s, fastest) > kWorthIt * StepTime(batch_s, counts)) return;
  ends_.clear();
  for (const uint32_t count : fastest) ends_.push_back(count + (ends_.empty() ? 0 : ends_.back()));
}

double LaneShares::StepTime(const std::vector<double>& batch_s, const std::vector<uint32_t>& counts) const {
  double longest = 0;
  for (size_t rank = 0; rank < counts.size(); ++rank)
    longest = std::max(longest, counts[rank] * batch_s[rank]);
  return longest;
}

std::pair<uint32_t, uint32_t> LaneShares::LanesOf(uint32_t rank, uint32_t width) const {
  if (!even(width)) return {rank == 0 ? 0 : ends_[rank - 1], ends_[rank]};
  const uint64_t workers = workers_.size();
  const auto from = [&](uint64_t r) { return static_cast<uint32_t>((r * width + workers - 1) / workers); };
  return {from(rank), from(uint64_t{rank} + 1)};
}

std::pair<uint32_t, uint32_t> LaneShares::CountOf(uint32_t rank, uint32_t width) const {
  const auto [begin, end] = LanesOf(rank, width);
  if (!even(width)) return {end - begin, end - begin};
  const auto workers = static_cast<uint32_t>(workers_.size());
  return {width / workers, (width + workers - 1) / workers};
}

}  // namespace leat::protocol
