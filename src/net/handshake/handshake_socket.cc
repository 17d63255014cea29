#include "net/handshake/handshake_socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "net/handshake/handshake.h"
#include "net/poller.h"

namespace leat::net {
namespace {

constexpr int kMinUserTimeoutMs = 20'000;

}  // namespace

std::string SocketError(int error) {
  return std::strerror(error);
}

void SetSocketOption(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof(value));
}

void PrepareSocket(int fd, const TransportOptions& options) {
  SetSocketOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetSocketOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  const auto stall = std::chrono::ceil<std::chrono::milliseconds>(options.stall_timeout).count();
  const int ms = static_cast<int>(std::clamp<int64_t>(stall, 1, 1 << 29));
  const auto seconds = [](Duration time) { return static_cast<int>(time / std::chrono::seconds(1)); };
  SetSocketOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, seconds(kKeepAliveIdle));
  SetSocketOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, seconds(kKeepAliveInterval));
  // The kernel counts a peer that does not read and a pause of this process, too, so the stall timeout has to
  // come first by far.
  SetSocketOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, std::max(2 * ms, kMinUserTimeoutMs));
}

void SendUnpaced(int fd, const SocketAddress& peer) {
  SocketAddress own;
  own.size = sizeof(own.storage);
  if (getsockname(fd, own.get(), &own.size) != 0 || HostOf(own.ToString()) != HostOf(peer.ToString())) return;
  constexpr std::string_view kReno = "reno";
  setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kReno.data(), kReno.size());
}

bool SendAll(int fd, TlsSession* tls, const Bytes& message) {
  if (tls != nullptr) {
    const iovec piece{const_cast<std::byte*>(message.data()), message.size()};
    bool moved = false;
    const Result<size_t> sent = tls->Write({&piece, 1}, &moved);
    return sent.ok() && *sent == message.size();
  }
  return send(fd, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(message.size());
}

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

wire::Nonce RandomNonce() {
  wire::Nonce nonce;
  LEAT_CHECK(getrandom(nonce.data(), nonce.size(), 0) == static_cast<ssize_t>(nonce.size()));
  return nonce;
}

HandshakeReader::Progress HandshakeReader::Read(int fd, TlsSession* tls) {
  while (have_ < size_) {
    if (tls != nullptr) {
      const iovec piece{bytes_.data() + have_, size_ - have_};
      const Result<size_t> got = tls->Read({&piece, 1});
      if (!got.ok()) {
        if (got.status().code() != Code::kUnavailable) lost_ = got.status();
        return Progress::kLost;
      }
      if (*got == 0) return Progress::kMore;
      have_ += *got;
      begun_ = true;
      continue;
    }
    const ssize_t got = recv(fd, bytes_.data() + have_, size_ - have_, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Progress::kMore;
    if (got <= 0) return Progress::kLost;
    have_ += static_cast<size_t>(got);
    begun_ = true;
  }
  return Progress::kDone;
}

void HandshakeReader::Next(size_t size) {
  size_ = size;
  have_ = 0;
}

namespace {

class ShutdownWatch final : public Watcher {
 public:
  ShutdownWatch(Loop& loop, int fd, std::function<void()> ended)
      : loop_(loop), duplicate_(fcntl(fd, F_DUPFD_CLOEXEC, 0)), ended_(std::move(ended)) {
    // The end of a socket is reported without a wish to read or write.
    if (duplicate_.ok()) {
      watch_ = loop_.impl().Watch(duplicate_.get(), false, false, this);
    } else {
      loop_.Post(std::move(ended_));  // without a descriptor left, its end cannot be seen
    }
  }
  ~ShutdownWatch() {
    if (watch_ != 0) loop_.impl().Unwatch(watch_);
  }
  ShutdownWatch(const ShutdownWatch&) = delete;
  ShutdownWatch& operator=(const ShutdownWatch&) = delete;

 private:
  void OnReady(bool, bool) override {
    loop_.impl().Unwatch(std::exchange(watch_, 0));
    loop_.Post(std::move(ended_));
  }

  Loop& loop_;
  Descriptor duplicate_;
  std::function<void()> ended_;
  uint64_t watch_ = 0;
};

}  // namespace

std::shared_ptr<void> WatchForShutdown(Loop& loop, int fd, std::function<void()> ended) {
  return std::make_shared<ShutdownWatch>(loop, fd, std::move(ended));
}

}  // namespace leat::net
