// Accepts and makes authenticated connections.
#include "net/handshake.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <list>
#include <string_view>
#include <utility>

#include "net/address.h"
#include "net/poller.h"
#include "wire/frame.h"

namespace leat::net {
namespace {

constexpr int kAcceptsPerTurn = 64;
// Pause after the process or the system has run out of descriptors or memory.
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

std::string Why(int error) {
  return std::strerror(error);
}

void Set(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof(value));
}

constexpr int kMinUserTimeoutMs = 20'000;

// A peer whose machine has failed sends nothing. The kernel probes an idle connection, and gives up on
// unacknowledged bytes.
void Prepare(int fd, const TransportOptions& options) {
  Set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  Set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  const auto stall = std::chrono::ceil<std::chrono::milliseconds>(options.stall_timeout).count();
  const int ms = static_cast<int>(std::clamp<int64_t>(stall, 1, 1 << 29));
  Set(fd, IPPROTO_TCP, TCP_KEEPIDLE, std::max(1, ms / 2000));
  Set(fd, IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, ms / 6000));
  Set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  // The kernel counts a peer that does not read and a pause of this process, too, so the stall timeout has to
  // come first by far.
  Set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, std::max(2 * ms, kMinUserTimeoutMs));
}

// Between peers on one host there is no network rate to measure. A system default that paces sending (such as
// BBR) can double the time of large messages there. Reno, which every system allows, sends as much as the
// peer can take.
void SendUnpaced(int fd, const SocketAddress& peer) {
  SocketAddress own;
  own.size = sizeof(own.storage);
  if (getsockname(fd, own.get(), &own.size) != 0 || HostOf(own.ToString()) != HostOf(peer.ToString())) return;
  constexpr std::string_view kReno = "reno";
  setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kReno.data(), kReno.size());
}

// Reads the peer's hello and nothing beyond it.
struct HelloReader {
  enum class Progress { kMore, kDone, kLost };
  std::array<std::byte, wire::kHelloBytes> bytes;
  size_t have = 0;
  int error = 0;  // of kLost; 0: closed by the peer

  Progress Read(int fd) {
    while (have < bytes.size()) {
      const ssize_t got = recv(fd, bytes.data() + have, bytes.size() - have, MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Progress::kMore;
      if (got <= 0) {
        error = got < 0 ? errno : 0;
        return Progress::kLost;
      }
      have += static_cast<size_t>(got);
    }
    return Progress::kDone;
  }
};

// A hello always fits into the send buffer of a new socket.
bool SendAll(int fd, const Bytes& hello) {
  return send(fd, hello.data(), hello.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(hello.size());
}

// ---- accepting

// A listening socket and its unauthenticated peers.
class HandshakeAcceptor final : public Watcher, public std::enable_shared_from_this<HandshakeAcceptor> {
 public:
  HandshakeAcceptor(std::shared_ptr<TransportContext> shared, int fd,
                    std::function<void(AuthenticatedSocket)> on_socket)
      : shared_(std::move(shared)), fd_(fd), on_socket_(std::move(on_socket)) {
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
    void OnReady(bool, bool) override { acceptor->ReadHello(at); }
    HandshakeAcceptor* acceptor;
    std::list<PendingHandshake>::iterator at;
    int fd = -1;
    uint64_t watch = 0;
    Time deadline{};
    std::string peer;
    HelloReader hello;
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
    Prepare(fd, shared_->options);
    if (!pending_handshakes_.empty() &&
        pending_handshakes_.size() >= shared_->options.max_pending_handshakes) {
      Close(pending_handshakes_.begin());
    }
    const auto at = pending_handshakes_.emplace(pending_handshakes_.end(), this);
    at->at = at;
    at->fd = fd;
    at->peer = std::move(peer);
    at->deadline = shared_->loop.Now() + shared_->options.handshake_timeout;
    at->watch = poller().Watch(fd, true, false, &*at);
    if (deadline_timer_ == 0) SetDeadline();
    ReadHello(at);
  }

  // The accept queue stays full for now, so another readiness event at once would only cost time.
  void Pause() {
    if (!pending_handshakes_.empty()) Close(pending_handshakes_.begin());
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
        Close(pending_handshakes_.begin());
      }
      SetDeadline();
    });
  }

  void ReadHello(PendingHandshakeAt at) {
    const auto progress = at->hello.Read(at->fd);
    if (progress == HelloReader::Progress::kMore) return;
    if (progress == HelloReader::Progress::kLost) return Close(at);
    const Status hello = wire::CheckHello(at->hello.bytes, shared_->options.token, wire::Side::kConnects);
    // A peer of another job gets an answer, otherwise it would retry.
    if (hello.code() == Code::kPermissionDenied) SendAll(at->fd, wire::EncodeRefusal());
    if (!hello.ok() || shared_->accepted >= shared_->options.max_connections ||
        !SendAll(at->fd, wire::EncodeHello(shared_->options.token, wire::Side::kAccepts))) {
      return Close(at);
    }
    const auto self = shared_from_this();  // the callback may destroy the listener
    poller().Unwatch(at->watch);
    AuthenticatedSocket authenticated{Descriptor(at->fd), std::move(at->peer)};
    pending_handshakes_.erase(at);
    on_socket_(std::move(authenticated));
  }

  void Close(PendingHandshakeAt at) {
    shared_->refused.Add();
    Drop(at);
  }

  void Drop(PendingHandshakeAt at) {
    poller().Unwatch(at->watch);
    close(at->fd);
    pending_handshakes_.erase(at);
  }

  std::shared_ptr<TransportContext> shared_;
  int fd_;
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

// ---- connecting

// Resolves the name, tries its addresses in order, sends the hello and verifies the peer's.
class Attempt final : public Watcher, public std::enable_shared_from_this<Attempt> {
 public:
  Attempt(std::shared_ptr<TransportContext> shared, std::string address,
          std::function<void(Result<AuthenticatedSocket>)> done)
      : shared_(std::move(shared)), address_(std::move(address)), done_(std::move(done)) {}
  ~Attempt() { Cancel(); }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  void Start(Duration deadline) {
    timer_ = shared_->loop.After(deadline, [this] {
      timer_ = 0;
      Finish(Status(Code::kDeadlineExceeded,
                    std::string("no ") + (greeting_ ? "hello" : "answer") + " before the deadline"));
    });
    lookup_ = ResolveAsync(shared_->loop, address_, [this](Result<std::vector<SocketAddress>> found) {
      if (!found.ok()) return Finish(found.status());
      addresses_ = std::move(*found);
      failure_ = Status(Code::kUnavailable, "no address");
      TryNext();
    });
  }

  // `done` is not called any more.
  void Cancel() {
    lookup_.reset();
    shared_->loop.Cancel(std::exchange(timer_, 0));
    CloseSocket();
  }

 private:
  Loop::Impl& poller() { return shared_->loop.impl(); }

  void TryNext() {
    while (next_ < addresses_.size()) {
      const SocketAddress& to = addresses_[next_++];
      const int fd = socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      if (fd < 0) {
        failure_ = Status(Code::kUnavailable, Why(errno));
        continue;
      }
      Prepare(fd, shared_->options);
      if (connect(fd, to.get(), to.size) != 0 && errno != EINPROGRESS && errno != EINTR) {
        failure_ = Status(Code::kUnavailable, Why(errno));
        close(fd);
        continue;
      }
      SendUnpaced(fd, to);
      fd_ = fd;
      peer_ = to.ToString();
      watch_ = poller().Watch(fd_, false, true, this);
      return;
    }
    Finish(failure_);
  }

  void OnReady(bool, bool) override {
    const auto self = shared_from_this();
    if (greeting_) return ReadHello();
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0 && !SendAll(fd_, wire::EncodeHello(shared_->options.token, wire::Side::kConnects)))
      error = errno;
    if (error != 0) {
      failure_ = Status(Code::kUnavailable, Why(error));
      CloseSocket();
      return TryNext();
    }
    greeting_ = true;
    poller().Rewatch(watch_, true, false);
  }

  void ReadHello() {
    const auto progress = hello_.Read(fd_);
    if (progress == HelloReader::Progress::kMore) return;
    if (progress == HelloReader::Progress::kLost) {
      return Finish(
          Status(Code::kUnavailable,
                 "the connection was closed before a hello (too many connections, or not a Leat peer)"));
    }
    if (Status status = wire::CheckHello(hello_.bytes, shared_->options.token, wire::Side::kAccepts);
        !status.ok()) {
      return Finish(std::move(status));
    }
    poller().Unwatch(watch_);
    Finish(AuthenticatedSocket{Descriptor(std::exchange(fd_, -1)), peer_});
  }

  void Finish(Result<AuthenticatedSocket> result) {
    const auto self = shared_from_this();
    Cancel();
    const auto done = std::exchange(done_, nullptr);
    if (!result.ok()) return done(result.status().With("cannot connect to " + address_));
    done(std::move(result));
  }

  void CloseSocket() {
    if (fd_ < 0) return;
    poller().Unwatch(watch_);
    close(std::exchange(fd_, -1));
  }

  std::shared_ptr<TransportContext> shared_;
  std::string address_;
  std::function<void(Result<AuthenticatedSocket>)> done_;
  uint64_t timer_ = 0;
  std::shared_ptr<void> lookup_;
  std::vector<SocketAddress> addresses_;
  size_t next_ = 0;
  Status failure_;  // of the last address tried
  int fd_ = -1;
  std::string peer_;
  uint64_t watch_ = 0;
  bool greeting_ = false;
  HelloReader hello_;
};

}  // namespace

Result<std::unique_ptr<Listener>> ListenAuthenticated(std::shared_ptr<TransportContext> shared,
                                                      const std::string& address,
                                                      std::function<void(AuthenticatedSocket)> on_socket) {
  const auto fail = [&](const std::string& why) {
    return Status(Code::kUnavailable, "cannot listen on " + address + ": " + why);
  };
  auto resolved = Resolve(address);
  if (!resolved.ok()) return resolved.status().With("cannot listen on " + address);
  SocketAddress at = resolved->front();
  const int fd = socket(at.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return fail(Why(errno));
  Set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (bind(fd, at.get(), at.size) != 0 || listen(fd, SOMAXCONN) != 0 ||
      getsockname(fd, at.get(), &at.size) != 0) {
    const std::string why = Why(errno);
    close(fd);
    return fail(why);
  }
  return std::unique_ptr<Listener>(new HandshakeListener(
      std::make_shared<HandshakeAcceptor>(std::move(shared), fd, std::move(on_socket)), at.ToString()));
}

std::shared_ptr<void> ConnectAuthenticated(std::shared_ptr<TransportContext> shared,
                                           const std::string& address, Duration deadline,
                                           std::function<void(Result<AuthenticatedSocket>)> done) {
  auto attempt = std::make_shared<Attempt>(std::move(shared), address, std::move(done));
  attempt->Start(deadline);
  return {nullptr, [attempt](void*) { attempt->Cancel(); }};
}

}  // namespace leat::net
