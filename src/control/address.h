// "host:port" as people write it.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace leat::control {

struct HostPort {
  std::string host;  // without brackets
  uint16_t port = 0;
};

// "127.0.0.1:4000", "[::1]:4000", "coordinator.local:4000"; localhost is 127.0.0.1, whatever a resolver would
// say. kInvalidArgument naming the address otherwise.
Result<HostPort> SplitAddress(const std::string& address);
std::string JoinAddress(const HostPort& at);

}  // namespace leat::control
