// "host:port" and what the system makes of it.
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

namespace leat::net {

struct HostPort {
  std::string host;  // without the brackets of an IPv6 address
  uint16_t port = 0;
  std::string ToString() const;
};
// "127.0.0.1:80", "ps-0.cluster:80", "[::1]:80"; localhost is 127.0.0.1, whatever a resolver would say.
// kInvalidArgument naming the address, and what is wrong with it, for anything else.
Result<HostPort> ParseAddress(std::string_view address);
// Of an address that is one, as it is written there: "127.0.0.1", "ps-0.cluster", "[::1]".
inline std::string_view HostOf(std::string_view address) {
  return address.substr(0, address.rfind(':'));
}

// Of this host, as the system has it; empty when it has none.
std::string HostName();

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  // "127.0.0.1:80", "[::1]:80"
  std::string ToString() const;
};

// All addresses of a host, in the order to try them. Blocks while a name is looked up.
Result<std::vector<SocketAddress>> Resolve(const std::string& address);
// The same without blocking: `done` comes on the loop, unless the handle that is returned is gone by then.
std::shared_ptr<void> ResolveAsync(Loop& loop, const std::string& address,
                                   std::function<void(Result<std::vector<SocketAddress>>)> done);

}  // namespace leat::net
