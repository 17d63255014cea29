// Makes authenticated connections.
#include "net/handshake/handshake.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "net/address.h"
#include "net/frames/handshake.h"
#include "net/poller.h"

namespace leat::net {
namespace {

using Progress = HandshakeReader::Progress;

constexpr const char* kSilent = "no answer from its host";

// A host whose kernel has not answered for so long cannot be connected to. Usually it is 7.5 s: until then a
// kernel asks at least four times, the last time after seven seconds.
Duration AnswerTimeout(const TransportOptions& options) {
  return options.handshake_timeout * 3 / 2;
}

// Resolves the name, tries its addresses in order, and does the handshakes.
class Attempt final : public Watcher, public std::enable_shared_from_this<Attempt> {
 public:
  Attempt(std::shared_ptr<TransportContext> shared, std::string address,
          std::function<void(Result<AuthenticatedSocket>)> done, uint32_t first)
      : shared_(std::move(shared)), address_(std::move(address)), done_(std::move(done)), first_(first) {}
  ~Attempt() { Cancel(); }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  void Start(Duration deadline) {
    timer_ = shared_->loop.After(deadline, [this] {
      timer_ = 0;
      if (fd_ >= 0 && !connected_)
        return Finish(Status(Code::kDeadlineExceeded, "no answer before the deadline"));
      Finish(Status(Code::kUnavailable, std::string("no ") + (connected_ ? "handshake" : "name lookup") +
                                            " before the deadline"));
    });
    lookup_ = ResolveAsync(shared_->loop, address_, [this](Result<std::vector<SocketAddress>> found) {
      if (!found.ok()) return Finish(found.status());
      addresses_ = std::move(*found);
      const auto first = static_cast<ptrdiff_t>(addresses_.empty() ? 0 : first_ % addresses_.size());
      std::rotate(addresses_.begin(), addresses_.begin() + first, addresses_.end());
      failure_ = Status(Code::kUnavailable, "no address");
      TryNext();
    });
  }

  // `done` is not called any more.
  void Cancel() {
    lookup_.reset();
    shared_->loop.Cancel(std::exchange(timer_, 0));
    shared_->loop.Cancel(std::exchange(answer_timer_, 0));
    CloseSocket();
  }

 private:
  Loop::Impl& poller() { return shared_->loop.impl(); }

  void TryNext() {
    while (next_ < addresses_.size()) {
      const SocketAddress& to = addresses_[next_++];
      const int fd = socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      if (fd < 0) {
        failure_ = Status(Code::kUnavailable, std::strerror(errno));
        continue;
      }
      PrepareSocket(fd, shared_->options);
      if (connect(fd, to.get(), to.size) != 0 && errno != EINPROGRESS && errno != EINTR) {
        failure_ = Status(Code::kUnavailable, std::strerror(errno));
        close(fd);
        continue;
      }
      SendUnpaced(fd, to);
      answer_timer_ = shared_->loop.After(AnswerTimeout(shared_->options), [this] {
        const auto self = shared_from_this();
        answer_timer_ = 0;
        failure_ = Status(Code::kDeadlineExceeded, kSilent);
        CloseSocket();
        TryNext();
      });
      fd_ = fd;
      peer_ = to.ToString();
      watch_ = poller().Watch(fd_, false, true, this);
      return;
    }
    Finish(failure_);
  }

  void OnReady(bool, bool) override {
    const auto self = shared_from_this();
    if (greeting_) return ReadAnswers();
    if (connected_) return ContinueTls();
    shared_->loop.Cancel(std::exchange(answer_timer_, 0));
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
    context_ = {.port = shared_->options.port, .connects = RandomNonce(), .accepts = {}};
    if (error == 0 && shared_->options.tls == nullptr && !SendHello()) error = errno;
    if (error != 0) {
      failure_ = Status(Code::kUnavailable, std::strerror(error));
      CloseSocket();
      return TryNext();
    }
    connected_ = true;
    poller().Rewatch(watch_, true, false);
    AwaitSilence();
    if (shared_->options.tls == nullptr) return;
    // A coordinator or a pool has the address that the user gave. Other addresses come from it.
    const auto host = ParseAddress(address_);
    const bool given =
        context_.port.kind == wire::PortKind::kControl || context_.port.kind == wire::PortKind::kPool;
    const bool named = given && host.ok();
    tls_ = shared_->options.tls->Begin(fd_,
                                       {.side = wire::Side::kConnects,
                                        .peer_roles = RolesAt(context_.port.kind).listen,
                                        .peer_host = named ? host->host : ""},
                                       shared_->tls_buffers);
    ContinueTls();
  }

  // From now on this kernel asks the peer's as it does later.
  void AwaitSilence() {
    answer_timer_ = shared_->loop.After(SilenceCheck::kInterval, [this] {
      answer_timer_ = 0;
      if (!silence_.Silent(SampleLink(fd_))) return AwaitSilence();
      Finish(Status(Code::kDeadlineExceeded, kSilent));
    });
  }

  void ContinueTls() {
    const Result<bool> complete = tls_->Handshake();
    if (!complete.ok()) return Finish(complete.status());
    if (!*complete) return;
    context_.session = tls_->ExportedSecret();
    if (!SendHello()) return Finish(Status(Code::kUnavailable, std::strerror(errno)));
    ReadAnswers();
  }

  bool SendHello() {
    greeting_ = true;
    return SendAll(fd_, tls_.get(), wire::EncodeHello(context_.port, context_.connects));
  }

  void ReadAnswers() {
    const auto progress = reader_.Read(fd_, tls_.get());
    if (progress == Progress::kMore) return;
    if (progress == Progress::kLost && !reader_.lost().ok()) return Finish(reader_.lost());
    if (progress == Progress::kLost) {
      return Finish(Status(Code::kUnavailable, proven_ ? "the connection was closed during the handshake"
                                                       : "the connection was closed before the handshake "
                                                         "(not a Leat peer, or one with another token)"));
    }
    const Status status = proven_ ? wire::DecodeVerdict(reader_.bytes()) : Prove();
    if (!status.ok()) return Finish(status);
    if (!std::exchange(proven_, true)) {
      reader_.Next(wire::kVerdictBytes);
      return ReadAnswers();
    }
    poller().Unwatch(watch_);
    Finish(AuthenticatedSocket{Descriptor(std::exchange(fd_, -1)), peer_, std::move(tls_)});
  }

  // Verifies the peer's proof, then sends this side's.
  Status Prove() {
    LEAT_ASSIGN_OR_RETURN(context_.accepts,
                          wire::CheckChallenge(reader_.bytes(), context_, shared_->options.token));
    if (!SendAll(fd_, tls_.get(), wire::EncodeProof(context_, shared_->options.token)))
      return {Code::kUnavailable, std::strerror(errno)};
    return {};
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
    tls_.reset();
    close(std::exchange(fd_, -1));
  }

  std::shared_ptr<TransportContext> shared_;
  std::string address_;
  std::function<void(Result<AuthenticatedSocket>)> done_;
  const uint32_t first_;  // number of the first address to try
  uint64_t timer_ = 0;
  uint64_t answer_timer_ = 0;  // until the peer's host has been silent for too long
  SilenceCheck silence_;       // since the socket is connected
  std::shared_ptr<void> lookup_;
  std::vector<SocketAddress> addresses_;
  size_t next_ = 0;
  Status failure_;  // error of the last address tried
  int fd_ = -1;
  std::string peer_;
  uint64_t watch_ = 0;
  std::unique_ptr<TlsSession> tls_;  // null: no TLS
  bool connected_ = false;           // TLS or the hello has begun
  bool greeting_ = false;            // the hello is sent
  bool proven_ = false;              // both proofs are made, the verdict follows
  wire::HandshakeContext context_;
  HandshakeReader reader_{wire::kChallengeBytes};
};

}  // namespace

std::shared_ptr<void> ConnectAuthenticated(std::shared_ptr<TransportContext> shared,
                                           const std::string& address, Duration deadline,
                                           std::function<void(Result<AuthenticatedSocket>)> done,
                                           uint32_t first) {
  auto attempt = std::make_shared<Attempt>(std::move(shared), address, std::move(done), first);
  attempt->Start(deadline);
  return {nullptr, [attempt](void*) { attempt->Cancel(); }};
}

}  // namespace leat::net
