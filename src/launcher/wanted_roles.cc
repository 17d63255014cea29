#include "launcher/wanted_roles.h"

#include <string_view>
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
    const Order order{role, count->get<uint32_t>(), may_drain};
    const auto obeyed = obeyed_.find(role);
    if (!chosen && obeyed != obeyed_.end() && obeyed->second == order.count) continue;
    if (may_drain) obeyed_[role] = order.count;
    orders.push_back(order);
  }
  return orders;
}

}  // namespace leat::launcher
