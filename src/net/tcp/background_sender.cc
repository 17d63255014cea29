#include "net/tcp/background_rate.h"

#include <ifaddrs.h>
#include <linux/if_link.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

namespace leat::net {
namespace {

// The kernel takes at most this much ahead of the packets on their way. The rest waits in the connection.
constexpr int kUnsentBytes = 256 << 10;

bool SameHost(const sockaddr* a, const sockaddr_storage& b) {
  if (a == nullptr || a->sa_family != b.ss_family) return false;
  if (b.ss_family == AF_INET) {
    return std::memcmp(&reinterpret_cast<const sockaddr_in*>(a)->sin_addr,
                       &reinterpret_cast<const sockaddr_in&>(b).sin_addr, sizeof(in_addr)) == 0;
  }
  return b.ss_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(b).sin6_addr, sizeof(in6_addr)) == 0;
}

// The kernel's counter of bytes that have left by the interface with the socket's own address.
std::optional<uint32_t> SentByInterface(int fd) {
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  ifaddrs* listed = nullptr;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) != 0 || getifaddrs(&listed) != 0)
    return std::nullopt;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(listed, freeifaddrs);
  for (const ifaddrs* at = listed; at != nullptr; at = at->ifa_next) {
    if (!SameHost(at->ifa_addr, own)) continue;
    for (const ifaddrs* link = listed; link != nullptr; link = link->ifa_next) {
      if (link->ifa_addr == nullptr || link->ifa_addr->sa_family != AF_PACKET || link->ifa_data == nullptr ||
          std::string_view(link->ifa_name) != at->ifa_name)
        continue;
      return static_cast<const rtnl_link_stats*>(link->ifa_data)->tx_bytes;
    }
  }
  return std::nullopt;
}

}  // namespace

BackgroundSender::BackgroundSender(int fd) : fd_(fd) {
  setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytes, sizeof(kUnsentBytes));
}

void BackgroundSender::OnInterval(Time now) {
  if (now - link_read_ >= kLinkInterval) {
    link_read_ = now;
    if (const auto counter = SentByInterface(fd_)) {
      link_ = link_ == 0 ? 1 : link_ + (*counter - link_counter_);
      link_counter_ = *counter;
    }
  }
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(fd_, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
  using std::chrono::microseconds;
  const double rate = rate_.OnSample(now, {.rtt = microseconds(info.tcpi_rtt),
                                           .min_rtt = microseconds(info.tcpi_min_rtt),
                                           .delivered = info.tcpi_bytes_acked,
                                           .repeated = info.tcpi_bytes_retrans,
                                           .link = link_});
  if (rate == applied_) return;
  const auto bytes_per_second = static_cast<uint64_t>(std::llround(rate));
  if (setsockopt(fd_, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes_per_second, sizeof(bytes_per_second)) == 0)
    applied_ = rate;
}

}  // namespace leat::net
