#include "protocol/leases/lease_book.h"

#include <algorithm>
#include <iterator>

namespace leat::protocol {

bool LeaseBook::Holds(const Item& item, NodeId worker) {
  return std::ranges::count(item.holders, worker, &LeaseHolder::worker) > 0;
}

bool LeaseBook::MayAdopt(const Item& item, NodeId worker, uint64_t lease) const {
  const bool may_hold = item.stage == Stage::kAwaited || item.stage == Stage::kLeased;
  return awaiting_ && may_hold && item.holders.size() < 2 && !Holds(item, worker) && !leases_.contains(lease);
}

void LeaseBook::Lend(Time now, Item* item, uint64_t lease, NodeId worker) {
  item->stage = Stage::kLeased;
  item->granted = true;
  item->holders.push_back({lease, worker});
  leases_[lease] = item;
  workers_[worker].insert(lease);
  pace_.OnGranted(now, worker, lease);
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
  OnDropped(item, worker);
}

void LeaseBook::DropHolders(Item* item) {
  while (!item->holders.empty()) Drop(item->holders.back().lease);
}

void LeaseBook::ForgetLeases() {
  leases_.clear();
  workers_.clear();
  pace_.Clear();
}

void LeaseBook::FreeIfAbandoned(Time now, Item* item) {
  if (item->holders.empty() || (item->holders.size() == 1 && item->holders[0].overdue))
    return Free(now, item);
  item->stage = Stage::kLeased;
}

size_t LeaseBook::OverdueOf(NodeId worker) const {
  const auto own = workers_.find(worker);
  if (own == workers_.end()) return 0;
  return static_cast<size_t>(std::ranges::count_if(
      own->second, [this](uint64_t id) { return leases_.at(id)->stage == Stage::kFree; }));
}

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
  OnReleased(item, worker);
  item->stage = Stage::kReleased;
  item->released_at = heartbeat_counts;
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

}  // namespace leat::protocol
