#include "net/handshake/handshake.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "net/address.h"
#include "net/frames/handshake.h"
#include "net/poller.h"
#include "net/security/refusal_log.h"

namespace leat::net {
namespace {

using Progress = HandshakeReader::Progress;

constexpr int kAcceptsPerTurn = 64;
// The first byte of a TLS connection: a record of its handshake.
constexpr std::byte kTlsHandshake{0x16};
// Pause after the process or the system has run out of descriptors or memory.
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

// A listening socket and its unauthenticated peers.
class HandshakeAcceptor final : public Watcher, public std::enable_shared_from_this<HandshakeAcceptor> {
 public:
  // `protocol`: spoken by observers, who prove no token; none: the peers are Leat's.
  HandshakeAcceptor(std::shared_ptr<TransportContext> shared, int fd, std::string address,
                    std::optional<std::string> protocol, std::function<void(AuthenticatedSocket)> on_socket)
      : shared_(std::move(shared)),
        fd_(fd),
        address_(std::move(address)),
        protocol_(std::move(protocol)),
        on_socket_(std::move(on_socket)) {
    watch_ = poller().Watch(fd_, true, false, this);
  }
  ~HandshakeAcceptor() { Shut(); }
  HandshakeAcceptor(const HandshakeAcceptor&) = delete;
  HandshakeAcceptor& operator=(const HandshakeAcceptor&) = delete;

  void Shut() {
    while (!pending_handshakes_.empty()) Drop(pending_handshakes_.begin());
    shared_->loop.Cancel(std::exchange(pause_timer_, 0));
    shared_->loop.Cancel(std::exchange(deadline_timer_, 0));
    if (fd_ < 0) return;
    poller().Unwatch(watch_);
    close(std::exchange(fd_, -1));
  }

 private:
  struct PendingHandshake final : public Watcher {
    explicit PendingHandshake(HandshakeAcceptor* its_acceptor) : acceptor(its_acceptor) {}
    void OnReady(bool, bool) override { acceptor->Read(at); }
    HandshakeAcceptor* acceptor;
    std::list<PendingHandshake>::iterator at;
    int fd = -1;
    uint64_t watch = 0;
    Time deadline{};
    std::string peer;
    std::unique_ptr<TlsSession> tls;
    bool without_tls = false;  // the peer's first byte is not one of TLS
    bool challenged = false;   // the hello is read, the proof follows
    wire::HandshakeContext context;
    HandshakeReader reader{wire::kHelloBytes};
  };
  using PendingHandshakeAt = std::list<PendingHandshake>::iterator;

  Loop::Impl& poller() { return shared_->loop.impl(); }

  void OnReady(bool, bool) override {
    const auto self = shared_from_this();
    for (int i = 0; i < kAcceptsPerTurn && fd_ >= 0; ++i) {
      SocketAddress from;
      from.size = sizeof(from.storage);
      const int fd = accept4(fd_, from.get(), &from.size, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd >= 0) {
        SendUnpaced(fd, from);
        Admit(fd, from.ToString());
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return;
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        return Pause();
      }  // otherwise the peer had closed before it was accepted
    }
  }

  void Admit(int fd, std::string peer) {
    PrepareSocket(fd, shared_->options);
    if (!pending_handshakes_.empty() &&
        pending_handshakes_.size() >= shared_->options.max_pending_handshakes) {
      Refuse(OldestOfTheLargestHost(), "too many unauthenticated connections");
    }
    const auto at = pending_handshakes_.emplace(pending_handshakes_.end(), this);
    at->at = at;
    at->fd = fd;
    at->peer = std::move(peer);
    at->deadline = shared_->loop.Now() + shared_->options.handshake_timeout;
    at->watch = poller().Watch(fd, true, false, &*at);
    if (deadline_timer_ == 0) SetDeadline();
    Read(at);
  }

  // Selects by host, so that a flood from one host does not close the connections of others.
  PendingHandshakeAt OldestOfTheLargestHost() {
    std::map<std::string_view, uint32_t> counts;
    for (const auto& pending : pending_handshakes_) ++counts[HostOf(pending.peer)];
    const auto largest = std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
    return std::ranges::find_if(pending_handshakes_, [&](const PendingHandshake& pending) {
      return HostOf(pending.peer) == largest->first;
    });
  }

  // The accept queue stays full for now, so another readiness event at once would only cost time.
  void Pause() {
    if (!pending_handshakes_.empty())
      Refuse(pending_handshakes_.begin(), "out of file descriptors or memory");
    poller().Rewatch(watch_, false, false);
    pause_timer_ = shared_->loop.After(kAcceptPause, [this] {
      pause_timer_ = 0;
      poller().Rewatch(watch_, true, false);
    });
  }

  // Pending handshakes are ordered by deadline.
  void SetDeadline() {
    if (pending_handshakes_.empty()) return;
    deadline_timer_ = shared_->loop.After(pending_handshakes_.front().deadline - shared_->loop.Now(), [this] {
      deadline_timer_ = 0;
      while (!pending_handshakes_.empty() && pending_handshakes_.front().deadline <= shared_->loop.Now()) {
        Refuse(pending_handshakes_.begin(), "no complete handshake before the deadline");
      }
      SetDeadline();
    });
  }

  void Read(PendingHandshakeAt at) {
    if (shared_->options.tls != nullptr && !at->without_tls) {
      if (at->tls == nullptr && !BeginTls(at)) return;
      if (at->tls != nullptr && !at->tls->established()) {
        const Result<bool> complete = at->tls->Handshake();
        if (!complete.ok()) return Refuse(at, complete.status().message());
        if (!*complete) return;
      }
    }
    if (protocol_) {
      if (at->without_tls) return Refuse(at, "the peer does not use TLS, which this port requires");
      return Accept(at);
    }
    const auto progress = at->reader.Read(at->fd, at->tls.get());
    if (progress == Progress::kMore) return;
    if (progress == Progress::kLost) {
      if (!at->reader.lost().ok()) return Refuse(at, at->reader.lost().message());
      const bool begun = at->reader.begun() || at->tls != nullptr;
      return Refuse(at, begun ? "the connection was closed during the handshake" : "");
    }
    if (at->challenged) return CheckProof(at);
    OnHello(at);
  }

  // Looks at the peer's first byte. False if there is none yet, or if the peer is refused.
  bool BeginTls(PendingHandshakeAt at) {
    std::byte first{};
    const ssize_t got = recv(at->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
    if (got <= 0) {
      Refuse(at, "");
      return false;
    }
    at->without_tls = first != kTlsHandshake;
    if (at->without_tls) return true;  // the hello without TLS is read, and answered
    const wire::PortKind port_kind = shared_->options.port.kind;
    at->tls = shared_->options.tls->Begin(
        at->fd,
        {.side = wire::Side::kAccepts,
         .peer_roles = protocol_ ? CertificateRoles{CertificateRole::kObserver} : RolesAt(port_kind).connect,
         .protocol = protocol_.value_or("")},
        shared_->tls_buffers);
    return true;
  }

  void OnHello(PendingHandshakeAt at) {
    const wire::Port& port = shared_->options.port;
    const auto nonce = wire::DecodeHello(at->reader.bytes(), port);
    if (!nonce.ok() && at->tls == nullptr && at->reader.bytes()[0] == kTlsHandshake) {
      SendAll(at->fd, nullptr, wire::EncodeMismatch(port));
      return Refuse(at, "the peer uses TLS, this role does not");
    }
    if (!nonce.ok()) {
      if (nonce.status().code() == Code::kFailedPrecondition)
        SendAll(at->fd, at->tls.get(), wire::EncodeMismatch(port));
      return Refuse(at, nonce.status().message());
    }
    if (at->without_tls) {
      SendAll(at->fd, nullptr, wire::EncodeTlsRequired(port));
      return Refuse(at, "the peer does not use TLS, which this port requires");
    }
    at->context = {.port = port, .connects = *nonce, .accepts = RandomNonce()};
    if (at->tls != nullptr) at->context.session = at->tls->ExportedSecret();
    if (!SendAll(at->fd, at->tls.get(), wire::EncodeChallenge(at->context, shared_->options.token)))
      return Refuse(at, std::strerror(errno));
    at->challenged = true;
    at->reader.Next(wire::kProofBytes);
    Read(at);
  }

  void CheckProof(PendingHandshakeAt at) {
    if (const Status proof = wire::CheckProof(at->reader.bytes(), at->context, shared_->options.token);
        !proof.ok()) {
      SendAll(at->fd, at->tls.get(), wire::EncodeVerdict(wire::Verdict::kWrongToken));
      return Refuse(at, proof.message());
    }
    if (const char* full = shared_->CheckRoom(HostOf(at->peer)); full != nullptr) {
      SendAll(at->fd, at->tls.get(), wire::EncodeVerdict(wire::Verdict::kTooManyConnections));
      return Refuse(at, full);
    }
    if (!SendAll(at->fd, at->tls.get(), wire::EncodeVerdict(wire::Verdict::kAdmitted)))
      return Refuse(at, std::strerror(errno));
    Accept(at);
  }

  void Accept(PendingHandshakeAt at) {
    if (const char* full = shared_->CheckRoom(HostOf(at->peer)); full != nullptr) return Refuse(at, full);
    const auto self = shared_from_this();  // the callback may destroy the listener
    poller().Unwatch(at->watch);
    AuthenticatedSocket authenticated{Descriptor(at->fd), std::move(at->peer), std::move(at->tls)};
    pending_handshakes_.erase(at);
    on_socket_(std::move(authenticated));
  }

  // Without a reason the peer has only looked whether the port is open, which is not logged.
  void Refuse(PendingHandshakeAt at, const std::string& why) {
    shared_->refused.Add();
    if (!why.empty()) refusal_log_.Add(shared_->loop.Now(), address_, at->peer, why);
    Drop(at);
  }

  void Drop(PendingHandshakeAt at) {
    poller().Unwatch(at->watch);
    close(at->fd);
    pending_handshakes_.erase(at);
  }

  std::shared_ptr<TransportContext> shared_;
  int fd_;
  const std::string address_;
  const std::optional<std::string> protocol_;
  RefusalLog refusal_log_{"connections"};
  std::function<void(AuthenticatedSocket)> on_socket_;
  uint64_t watch_ = 0;
  uint64_t pause_timer_ = 0;
  uint64_t deadline_timer_ = 0;
  std::list<PendingHandshake> pending_handshakes_;  // oldest first
};

class HandshakeListener final : public Listener {
 public:
  HandshakeListener(std::shared_ptr<HandshakeAcceptor> acceptor, std::string address)
      : acceptor_(std::move(acceptor)), address_(std::move(address)) {}
  ~HandshakeListener() override { acceptor_->Shut(); }
  const std::string& address() const override { return address_; }

 private:
  std::shared_ptr<HandshakeAcceptor> acceptor_;
  std::string address_;
};

}  // namespace

Result<std::unique_ptr<Listener>> ListenAuthenticated(std::shared_ptr<TransportContext> shared,
                                                      const std::string& address,
                                                      std::function<void(AuthenticatedSocket)> on_socket,
                                                      std::optional<std::string> protocol) {
  LEAT_ASSIGN_OR_RETURN(ListeningSocket at, ListenOn(address));
  return std::unique_ptr<Listener>(new HandshakeListener(
      std::make_shared<HandshakeAcceptor>(std::move(shared), at.socket.Release(), at.address.ToString(),
                                          std::move(protocol), std::move(on_socket)),
      at.address.ToString()));
}

// ---- sockets

namespace {

constexpr int kMinUserTimeoutMs = 20'000;

void SetSocketOption(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof(value));
}

}  // namespace

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
