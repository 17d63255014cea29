#include "net/silence.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

#include "net/handshake/handshake_socket.h"

namespace leat::net {

LinkSample SampleLink(int fd) {
  using std::chrono::milliseconds;
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  LinkSample sample{.heard = milliseconds(std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv)),
                    .asked = std::nullopt};
  if (info.tcpi_unacked > 0) {
    sample.asked = milliseconds(info.tcpi_last_data_sent);  // includes what was sent again
  } else if (info.tcpi_probes > 0) {
    const Duration last = kKeepAliveIdle + (info.tcpi_probes - 1) * kKeepAliveInterval;
    sample.asked = std::max<Duration>(sample.heard - last, Duration(0));
  }
  return sample;
}

}  // namespace leat::net
