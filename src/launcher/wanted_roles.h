// What the local runner does about the numbers of workers and servers that the coordinator's status says are
// wanted.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace leat::launcher {

// Pure.
class WantedRoles {
 public:
  struct Order {
    std::string role;
    uint32_t count = 0;      // of its processes
    bool may_drain = false;  // false: there may be more for now
    friend bool operator==(const Order&, const Order&) = default;
  };

  // The orders that follow from a status. A number that is fixed is ordered once for each change, so that a
  // process which has left on a signal stays away; one that the autoscaler has chosen, again and again.
  std::vector<Order> OnStatus(const nlohmann::ordered_json& status);

 private:
  std::map<std::string, uint32_t> obeyed_;  // by role
};

}  // namespace leat::launcher
