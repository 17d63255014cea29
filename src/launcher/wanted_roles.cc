#include "launcher/wanted_roles.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

namespace leat::launcher {

std::vector<WantedRoles::Order> WantedRoles::OnStatus(const nlohmann::ordered_json& status) {
  if (!status.is_object()) return {};
  const std::string phase = status.value("phase", "");
  const auto wanted = status.find("wanted");
  if (phase == "stopping" || phase == "ended" || wanted == status.end() || !wanted->is_object()) return {};
  const bool may_drain = phase == "running" || phase == "paused";
  std::vector<Order> orders;
  for (const auto& [role, key] : {std::pair{"ps", "ps"}, {"worker", "workers"}}) {
    const auto count = wanted->find(key);
    if (count == wanted->end() || !count->is_number_unsigned()) continue;
    const bool chosen = std::string_view(role) == "worker" && wanted->contains("range");
    const auto obeyed = obeyed_.find(role);
    const auto number = count->get<uint32_t>();
    const bool may_start = chosen || obeyed == obeyed_.end() || obeyed->second != number;
    if (may_drain) obeyed_[role] = number;
    if (may_start || may_drain) orders.push_back({role, number, may_start, may_drain});
  }
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
