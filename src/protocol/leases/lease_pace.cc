#include "protocol/leases/lease_pace.h"

#include <algorithm>

namespace leat::protocol {

void LeasePace::OnGranted(Time now, NodeId worker, uint64_t lease) {
  const auto [at, fresh] = workers_.try_emplace(worker);
  Worker& state = at->second;
  if (fresh) state.last_heartbeat = now;
  state.held.push_back({lease, state.Own(now)});
}

void LeasePace::OnEnded(Time now, NodeId worker, uint64_t lease) {
  const auto at = workers_.find(worker);
  if (at == workers_.end()) return;
  Worker& state = at->second;
  const auto ended = std::ranges::find(state.held, lease, &Held::lease);
  if (ended == state.held.end()) return;
  const Duration took = state.Own(now) - std::max(state.last_end, ended->granted);
  // Several leases that end in one heartbeat count as one.
  if (took > Duration{0}) state.times[state.count++ % kLast] = took;
  state.held.erase(ended);
  state.last_end = state.Own(now);
}

void LeasePace::OnTaken(NodeId worker, uint64_t lease) {
  const auto at = workers_.find(worker);
  if (at == workers_.end()) return;
  std::erase_if(at->second.held, [&](const Held& held) { return held.lease == lease; });
}

void LeasePace::OnHeartbeat(Time now, NodeId worker, bool waiting) {
  const auto at = workers_.find(worker);
  if (at == workers_.end()) return;
  Worker& state = at->second;
  if (waiting)
    state.waited += std::clamp(now - state.last_heartbeat, Duration{0}, 2 * limits_.heartbeat_interval);
  state.last_heartbeat = now;
}

Duration LeasePace::LimitOf(const Worker& worker) const {
  const size_t count = std::min(worker.count, kLast);
  if (count == 0) return limits_.first;
  auto times = worker.times;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(count / 2);
  std::nth_element(times.begin(), middle, times.begin() + static_cast<std::ptrdiff_t>(count));
  return std::max(limits_.shortest, kFactor * *middle);
}

Duration LeasePace::LimitOf(NodeId worker) const {
  const auto at = workers_.find(worker);
  return at == workers_.end() ? limits_.first : LimitOf(at->second);
}

std::vector<uint64_t> LeasePace::Overdue(Time now) {
  std::vector<uint64_t> overdue;
  for (auto& [node, worker] : workers_) {
    if (worker.held.empty()) continue;
    const Duration limit = LimitOf(worker);
    // The next lease begins when this one should have ended.
    Time begin = worker.last_end;
    for (Held& held : worker.held) {
      const Time due = std::max(begin, held.granted) + limit;
      if (worker.Own(now) < due) break;
      if (!held.overdue) overdue.push_back(held.lease);
      held.overdue = true;
      begin = due;
    }
  }
  return overdue;
}

}  // namespace leat::protocol
