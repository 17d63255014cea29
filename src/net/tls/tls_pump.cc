#include "net/tls/tls_pump.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "net/poller.h"

namespace leat::net {
namespace {

constexpr size_t kBufferBytes = 64 << 10;

// Bytes that have come from one side and not gone to the other.
struct Transit {
  std::array<std::byte, kBufferBytes> bytes;
  size_t begin = 0, end = 0;
  bool source_ended = false;

  bool empty() const { return begin == end; }
  // No byte will follow.
  bool over() const { return source_ended && empty(); }
  void Consume(size_t count) {
    begin += count;
    if (empty()) begin = end = 0;
  }
};

class Pump final {
 public:
  Pump(Loop& loop, AuthenticatedSocket authenticated, Descriptor outside, std::function<void()> on_end)
      : loop_(loop),
        authenticated_(std::move(authenticated)),
        outside_(std::move(outside)),
        on_end_(std::move(on_end)) {
    tls_watch_ = loop_.impl().Watch(authenticated_.socket.get(), true, false, &tls_watcher_);
    plain_watch_ = loop_.impl().Watch(outside_.get(), true, false, &plain_watcher_);
    // TLS may have read ahead, of which the socket says nothing.
    loop_.Post([this, here = here_] {
      if (*here) Move();
    });
  }
  ~Pump() {
    *here_ = false;
    Close();
  }
  Pump(const Pump&) = delete;
  Pump& operator=(const Pump&) = delete;

 private:
  struct Side final : public Watcher {
    explicit Side(Pump* its_pump) : pump(its_pump) {}
    void OnReady(bool, bool) override { pump->Move(); }
    Pump* pump;
  };

  void Close() {
    if (tls_watch_ == 0) return;
    loop_.impl().Unwatch(std::exchange(tls_watch_, 0));
    loop_.impl().Unwatch(std::exchange(plain_watch_, 0));
    authenticated_.tls.reset();
    authenticated_.socket = Descriptor();
    outside_ = Descriptor();
  }

  // Moves what can be moved. A side that has ended ends the other when all of its bytes have arrived.
  void Move() {
    if (tls_watch_ == 0) return;
    bool more = true;
    for (int turn = 0; more && turn < kTurns; ++turn) {
      more = MoveIn();
      more = MoveOut() || more;
    }
    if (in_.over() || out_.over() || failed_) {
      Close();
      loop_.Post([here = here_, on_end = std::move(on_end_)] {
        if (*here) on_end();
      });
      return;
    }
    loop_.impl().Rewatch(tls_watch_, in_.empty(), !out_.empty());
    loop_.impl().Rewatch(plain_watch_, out_.empty(), !in_.empty());
    if (more || (in_.empty() && authenticated_.tls->readable())) {
      loop_.Post([this, here = here_] {
        if (*here) Move();
      });
    }
  }

  // From TLS to the library. True if anything has moved.
  bool MoveIn() {
    bool moved = false;
    if (in_.empty() && !in_.source_ended) {
      const iovec piece{in_.bytes.data(), in_.bytes.size()};
      const Result<size_t> got = authenticated_.tls->Read({&piece, 1});
      in_.source_ended = !got.ok();
      in_.end = got.ok() ? *got : 0;
      moved = in_.end > 0;
    }
    while (!in_.empty()) {
      const ssize_t sent = send(outside_.get(), in_.bytes.data() + in_.begin, in_.end - in_.begin,
                                MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) {
        failed_ = failed_ || (errno != EAGAIN && errno != EWOULDBLOCK);
        break;
      }
      in_.Consume(static_cast<size_t>(sent));
      moved = true;
    }
    return moved;
  }

  // From the library to TLS.
  bool MoveOut() {
    bool moved = false;
    while (out_.empty() && !out_.source_ended) {
      const ssize_t got = recv(outside_.get(), out_.bytes.data(), out_.bytes.size(), MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
      out_.source_ended = got <= 0;
      out_.end = got > 0 ? static_cast<size_t>(got) : 0;
      moved = out_.end > 0;
    }
    if (out_.empty()) return moved;
    const iovec piece{out_.bytes.data() + out_.begin, out_.end - out_.begin};
    const Result<size_t> sent = authenticated_.tls->Write({&piece, 1}, &moved);
    failed_ = failed_ || !sent.ok();
    if (sent.ok()) out_.Consume(*sent);
    return moved;
  }

  static constexpr int kTurns = 16;  // then other connections have their turn

  Loop& loop_;
  AuthenticatedSocket authenticated_;
  Descriptor outside_;
  std::function<void()> on_end_;
  Side tls_watcher_{this}, plain_watcher_{this};
  uint64_t tls_watch_ = 0, plain_watch_ = 0;
  Transit in_, out_;
  bool failed_ = false;
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true);
};

}  // namespace

Result<TlsPump> MakeTlsPump(Loop& loop, AuthenticatedSocket authenticated, std::function<void()> on_end) {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) {
    return Status(Code::kResourceExhausted, std::string("cannot make a pair of sockets: ") + strerror(errno));
  }
  return TlsPump{
      std::make_shared<Pump>(loop, std::move(authenticated), Descriptor(fds[0]), std::move(on_end)),
      Descriptor(fds[1])};
}

}  // namespace leat::net
