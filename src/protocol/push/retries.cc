#include "protocol/push/retries.h"

#include <algorithm>

namespace leat::protocol {

Duration Retries::BackOff(uint32_t earlier, Duration longest) {
  constexpr uint32_t kMaxDoublings = 16;
  const Duration pause = std::min(longest, times_.retry_interval * (1 << std::min(earlier, kMaxDoublings)));
  return pause + FromSeconds(0.5 * rng_.Uniform() * Seconds(pause));
}

Duration Retries::OnFailed(Time now, NodeId server) {
  Failure& failure = failing_[server];
  // After a longer time there was a connection in between.
  const bool again = failure.last == Time::min() || now - failure.last <= times_.failure_gap;
  if (failure.since == Time::max() || !again) {
    failure.since = now;
    failure.in_a_row = 0;
  }
  failure.last = now;
  ++count_;
  return BackOff(failure.in_a_row++, times_.max_retry_interval);
}

void Retries::OnLate(Time now, NodeId server) {
  Failure& failure = failing_[server];
  failure = {.since = now, .silent = failure.silent};
  ++count_;
}

void Retries::OnSilence(NodeId server, bool silent) {
  if (silent) {
    failing_[server].silent = true;
  } else if (const auto at = failing_.find(server); at != failing_.end()) {
    at->second.silent = false;
  }
}

void Retries::DropAbsent(const View& view) {
  std::erase_if(failing_, [&](const auto& entry) { return !view.Find(entry.first); });
}

std::vector<NodeId> Retries::Unreachable(Time now) const {
  std::vector<NodeId> servers;
  for (const auto& [server, failure] : failing_) {
    const bool fails = failure.last != Time::min() &&
                       failure.last - failure.since >= times_.unreachable_after &&
                       now - failure.last <= times_.failure_gap;
    if (fails || failure.silent) servers.push_back(server);
  }
  return servers;
}

}  // namespace leat::protocol
