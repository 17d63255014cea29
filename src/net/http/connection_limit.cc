#include "net/http/connection_limit.h"

#include <netinet/in.h>

#include <cstring>

namespace leat::net {

uint64_t HostNumber(const sockaddr* address) {
  uint64_t number = 0;
  if (address->sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, address, sizeof(v4));
    return ntohl(v4.sin_addr.s_addr);
  }
  if (address->sa_family != AF_INET6) return number;
  sockaddr_in6 v6{};
  std::memcpy(&v6, address, sizeof(v6));
  // The last four bytes of ::ffff:10.0.0.1 are an IPv4 address.
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    uint32_t v4 = 0;
    std::memcpy(&v4, v6.sin6_addr.s6_addr + 12, sizeof(v4));
    return ntohl(v4);
  }
  std::memcpy(&number, v6.sin6_addr.s6_addr, sizeof(number));
  return number;
}

}  // namespace leat::net
