#include "control/address.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <charconv>

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

}  // namespace leat::control
