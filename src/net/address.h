// Parsing and resolution of "host:port" addresses.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "net/loop.h"
#include "net/same_host/same_host_peer.h"

namespace leat::net {

struct HostPort {
  std::string host;  // without the brackets of an IPv6 address
  uint16_t port = 0;
  std::string ToString() const;
};
// Accepts "127.0.0.1:80", "ps-0.cluster:80" and "[::1]:80". localhost is always 127.0.0.1. Returns
// kInvalidArgument with the address and the reason for anything else.
Result<HostPort> ParseAddress(std::string_view address);
// Whether it is a numeric address of IPv4 or IPv6, without brackets and port.
bool IsIpAddress(std::string_view host);
// The host part of a valid address, as written: "127.0.0.1", "ps-0.cluster", "[::1]".
inline std::string_view HostOf(std::string_view address) {
  return address.substr(0, address.rfind(':'));
}

// The address of a listener that others are told: `advertise` ("host:port", or "host" with the listener's
// port), or `listening` if it is empty. Returns kInvalidArgument for an `advertise` that is no such address,
// a wildcard (0.0.0.0, [::]), or has port 0.
Result<std::string> AdvertisedAddress(const std::string& advertise, const std::string& listening);

// The name of this host as the system reports it, or empty.
std::string HostName();
// Identifies the boot of this host and its network namespace: processes with the same one reach each other by
// loopback. Not 0.
uint64_t NetworkId();
// The address of this host, without a port, from which the system would connect to `address`. Empty if it
// would not. Blocks if the name has to be looked up; sends nothing.
std::string LocalHostTowards(const std::string& address);

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  // "127.0.0.1:80", "[::1]:80"
  std::string ToString() const;
};

// All addresses of a host, in the order to try them. Blocks during the name lookup.
Result<std::vector<SocketAddress>> Resolve(const std::string& address);
struct ListeningSocket {
  Descriptor socket;      // non-blocking
  SocketAddress address;  // with the real port
};
// The errors name the address: "cannot listen on 127.0.0.1:9464: Address already in use". Blocks as Resolve.
Result<ListeningSocket> ListenOn(const std::string& address);
// As Resolve, without blocking. `done` runs on the loop, unless the returned handle is destroyed first.
std::shared_ptr<void> ResolveAsync(Loop& loop, const std::string& address,
                                   std::function<void(Result<std::vector<SocketAddress>>)> done);

}  // namespace leat::net
