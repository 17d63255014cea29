#include "protocol/leases/lease_book.h"

#include <algorithm>
#include <iterator>

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

Duration LeasePace::LimitOf(NodeId worker) const {
  const auto at = workers_.find(worker);
  const size_t count = at == workers_.end() ? 0 : std::min(at->second.count, kLast);
  if (count == 0) return limits_.first;
  auto times = at->second.times;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(count / 2);
  std::nth_element(times.begin(), middle, times.begin() + static_cast<std::ptrdiff_t>(count));
  return std::max(limits_.shortest, kFactor * *middle);
}

std::vector<uint64_t> LeasePace::Overdue(Time now) {
  std::vector<uint64_t> overdue;
  for (auto& [node, worker] : workers_) {
    if (worker.held.empty()) continue;
    const Duration limit = LimitOf(node);
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

// ---- workers of a former coordinator

void LeaseBook::Adopt(Time now, NodeId worker, const LeaseClaim& claim) {
  Item* const item = Find(claim);
  if (!awaiting_ || item == nullptr || leases_.contains(claim.lease)) return;
  const bool may_hold = item->stage == Stage::kAwaited || item->stage == Stage::kLeased;
  if (may_hold && item->holders.size() < 2 && !item->HeldBy(worker)) Enter(now, item, claim.lease, worker);
}

void LeaseBook::EndAwait(Time, const HeartbeatCounts& heartbeat_counts) {
  awaiting_ = false;
  ForEach([&](Item& item) {
    if (item.stage == Stage::kAwaited) MarkReleased(&item, NodeId(), heartbeat_counts);
  });
}

// ---- the leases of an item

void LeaseBook::Lend(Time now, Item* item, uint64_t lease, NodeId worker) {
  if (item->granted) ++regranted_;
  Unfree(*item);
  Enter(now, item, lease, worker);
}

void LeaseBook::Enter(Time now, Item* item, uint64_t lease, NodeId worker) {
  item->stage = Stage::kLeased;
  item->granted = true;
  item->holders.push_back({lease, worker});
  leases_[lease] = item;
  workers_[worker].insert(lease);
  pace_.OnGranted(now, worker, lease);
  CountShare(*item, worker, true);
}

void LeaseBook::Drop(uint64_t lease) {
  const auto at = leases_.find(lease);
  Item* const item = at->second;
  const auto holder = std::ranges::find(item->holders, lease, &LeaseHolder::lease);
  const NodeId worker = holder->worker;
  workers_[worker].erase(lease);
  pace_.OnTaken(worker, lease);
  item->holders.erase(holder);
  leases_.erase(at);
  CountShare(*item, worker, false);
}

void LeaseBook::DropHolders(Item* item) {
  while (!item->holders.empty()) Drop(item->holders.back().lease);
}

void LeaseBook::Finish(Item* item) {
  DropHolders(item);
  if (item->stage == Stage::kFree) Unfree(*item);
  item->stage = Stage::kDone;
}

void LeaseBook::FreeIfAbandoned(Time now, Item* item) {
  if (item->holders.empty() || (item->holders.size() == 1 && item->holders[0].overdue))
    return Free(now, item);
  item->stage = Stage::kLeased;
}

void LeaseBook::MarkReleased(Item* item, NodeId worker, const HeartbeatCounts& heartbeat_counts) {
  if (item->stage == Stage::kFree) Unfree(*item);
  if (item->stage != Stage::kReleased) released_.push_back(item);
  item->stage = Stage::kReleased;
  item->released_by = worker;
  item->released_at = heartbeat_counts;
}

void LeaseBook::ForgetFinished() {
  std::erase_if(released_, [](const Item* item) { return item->stage != Stage::kReleased; });
}

void LeaseBook::ForgetLeases() {
  leases_.clear();
  workers_.clear();
  released_.clear();
  pace_.Clear();
}

size_t LeaseBook::OverdueOf(NodeId worker) const {
  const auto own = workers_.find(worker);
  if (own == workers_.end()) return 0;
  return static_cast<size_t>(std::ranges::count_if(
      own->second, [this](uint64_t id) { return leases_.at(id)->stage == Stage::kFree; }));
}

// ---- events

void LeaseBook::FreeOverdue(Time now) {
  for (const uint64_t id : pace_.Overdue(now)) {
    Item* const item = leases_.at(id);
    std::ranges::find(item->holders, id, &LeaseHolder::lease)->overdue = true;
    ++overdue_;
    if (item->stage == Stage::kLeased) FreeIfAbandoned(now, item);
  }
}

void LeaseBook::Release(Time now, uint64_t id, NodeId worker, const HeartbeatCounts& heartbeat_counts) {
  const auto own = workers_.find(worker);
  if (own == workers_.end() || !own->second.contains(id)) return;
  Item* const item = leases_.at(id);
  pace_.OnEnded(now, worker, id);
  Drop(id);
  CountShare(*item, worker, true);
  MarkReleased(item, worker, heartbeat_counts);
}

std::vector<uint64_t> LeaseBook::Reconcile(Time now, NodeId worker, std::vector<uint64_t> held) {
  std::ranges::sort(held);
  std::vector<uint64_t> revoked, lost;
  const std::set<uint64_t>& own = workers_[worker];
  std::ranges::copy_if(held, std::back_inserter(revoked), [&](uint64_t id) { return !own.contains(id); });
  std::ranges::set_difference(own, held, std::back_inserter(lost));
  for (const uint64_t id : lost) {
    Item* const item = leases_.at(id);
    Drop(id);
    if (item->holders.empty()) item->granted = false;
    if (item->stage == Stage::kLeased) FreeIfAbandoned(now, item);
  }
  return revoked;
}

void LeaseBook::Reclaim(Time now, NodeId worker) {
  const auto own = workers_.find(worker);
  if (own == workers_.end()) return;
  while (!own->second.empty()) {
    Item* const item = leases_.at(*own->second.begin());
    Drop(*own->second.begin());
    if (item->stage == Stage::kLeased) FreeIfAbandoned(now, item);
  }
  workers_.erase(own);
  pace_.Forget(worker);
}

void LeaseBook::OnServerReport(Time now, const SliceProgress& slices,
                               const HeartbeatCounts& heartbeat_counts) {
  if (!slices.ready() || !TakeProgress(now, slices)) return;
  ForgetFinished();
  std::erase_if(released_, [&](Item* item) {
    const bool reported = AllReportedSince(item->released_at, heartbeat_counts);
    const bool complete = IsComplete(*item, slices, reported);
    if (!complete && !reported) return false;
    item->released_at.clear();
    if (complete) {
      Finish(item);
    } else {
      CountShare(*item, item->released_by, false);
      FreeIfAbandoned(now, item);
    }
    return true;
  });
}

}  // namespace leat::protocol
