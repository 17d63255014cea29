#include "control/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

namespace leat::control {
namespace {

bool IsIp(int family, const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(family, host.c_str(), bytes) == 1;
}

}  // namespace

Result<HostPort> SplitAddress(const std::string& address) {
  const auto bad = [&](const char* why) {
    return Status(Code::kInvalidArgument, "address '" + address + "' is not host:port: " + why);
  };
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return bad("no ':'");
  HostPort at;
  at.host = address.substr(0, colon);
  if (at.host.size() >= 2 && at.host.front() == '[' && at.host.back() == ']') {
    at.host = at.host.substr(1, at.host.size() - 2);
    if (!IsIp(AF_INET6, at.host)) return bad("no IPv6 address in brackets");
  } else if (at.host.find_first_of(":/[]%?# ") != std::string::npos) {
    return bad("no host");
  }
  if (at.host.empty()) return bad("no host");
  if (at.host == "localhost") at.host = "127.0.0.1";
  const char* first = address.data() + colon + 1;
  const char* last = address.data() + address.size();
  const auto [end, error] = std::from_chars(first, last, at.port);
  if (first == last || end != last || error != std::errc()) return bad("the port is no number up to 65535");
  return at;
}

std::string JoinAddress(const HostPort& at) {
  const bool v6 = at.host.find(':') != std::string::npos;
  return (v6 ? "[" + at.host + "]" : at.host) + ":" + std::to_string(at.port);
}

std::string Target(const HostPort& at) {
  if (IsIp(AF_INET, at.host)) return "ipv4:" + JoinAddress(at);
  if (IsIp(AF_INET6, at.host)) return "ipv6:%5B" + at.host + "%5D:" + std::to_string(at.port);
  return "dns:///" + JoinAddress(at);
}

std::string WhyNotListening(const HostPort& at) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(at.host.c_str(), std::to_string(at.port).c_str(), &hints, &found);
      error != 0) {
    return gai_strerror(error);
  }
  int error = 0;
  for (const addrinfo* info = found; info != nullptr && error == 0; info = info->ai_next) {
    const int fd = socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC, info->ai_protocol);
    const int on = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd, info->ai_addr, info->ai_addrlen) != 0 || listen(fd, 1) != 0) {
      error = errno;
    }
    if (fd >= 0) close(fd);
  }
  freeaddrinfo(found);
  return error == 0 ? "gRPC could not" : std::strerror(error);
}

}  // namespace leat::control
