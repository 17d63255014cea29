#include "run/launcher/wanted_roles.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace leat::launcher {

std::vector<WantedRoles::Order> WantedRoles::OnStatus(const report::JobStatus& status) {
  const auto& wanted = status.wanted;
  if (!wanted || status.phase == "stopping" || status.phase == "ended") return {};
  const bool may_drain = status.phase == "running" || status.phase == "paused";
  std::vector<Order> orders;
  const auto order = [&](const char* role, uint32_t number, bool chosen) {
    const auto obeyed = obeyed_.find(role);
    const bool may_start = chosen || obeyed == obeyed_.end() || obeyed->second != number;
    if (may_drain) obeyed_[role] = number;
    if (may_start || may_drain) orders.push_back({role, number, may_start, may_drain});
  };
  if (wanted->ps) order("ps", *wanted->ps, false);
  if (wanted->workers) order("worker", *wanted->workers, wanted->range.has_value());
  return orders;
}

WantedRoles::Change WantedRoles::ChangeFor(const Order& order, std::vector<Process> staying,
                                           const std::set<uint32_t>& taken) {
  Change change;
  for (uint32_t index = 0; order.may_start && staying.size() + change.starts.size() < order.count; ++index) {
    if (!taken.contains(index)) change.starts.push_back(index);
  }
  // The last ones of both kinds, those that are no members first.
  std::ranges::sort(staying, {}, [](const Process& p) { return std::tuple(!p.member, p.index, p.pid); });
  while (order.may_drain && staying.size() > order.count) {
    change.drains.push_back(staying.back().pid);
    staying.pop_back();
  }
  return change;
}

}  // namespace leat::launcher
