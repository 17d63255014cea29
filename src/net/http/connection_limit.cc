#include "net/http/connection_limit.h"

#include <cstring>

namespace leat::net {

uint64_t HostNumber(const boost::asio::ip::address& address) {
  namespace ip = boost::asio::ip;
  if (address.is_v4()) return address.to_v4().to_uint();
  const ip::address_v6 v6 = address.to_v6();
  if (v6.is_v4_mapped()) return ip::make_address_v4(ip::v4_mapped, v6).to_uint();  // ::ffff:10.0.0.1
  uint64_t network = 0;
  std::memcpy(&network, v6.to_bytes().data(), sizeof(network));
  return network;
}

}  // namespace leat::net
