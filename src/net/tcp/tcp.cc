#include "net/transports.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "net/address.h"
#include "net/connection_base.h"
#include "net/framing.h"
#include "net/handshake/handshake.h"
#include "net/poller.h"
#include "net/tcp/background_rate.h"

namespace leat::net {
namespace {

// Bytes per system call: large enough that the call costs little beside the copy, small enough that the
// copied bytes are still in the cache when the receiver processes them.
constexpr size_t kCallBytes = 512 << 10;
static_assert(kCallBytes <= kReadAhead);
// Bytes per direction and loop iteration, so that other connections get their share.
constexpr size_t kTurnBytes = 2 << 20;
// With more than this still to come, the peer is sending right now.
constexpr size_t kSmallBytes = 64 << 10;
// How long to poll for it: several times the transfer time of 512 KiB.
constexpr Duration kAwake = std::chrono::microseconds(50);
constexpr size_t kMaxVectors = 64;

// A tcp connection: frames over a connected, authenticated stream socket, through TLS if it has begun there.
//
// Large payloads are read directly into the receiver's spans, other bytes into one staging buffer shared by
// all streams of a transport. So a small message costs one read, and an idle connection needs almost no
// memory. Loop's thread only.
class Stream final : public Watcher, public ConnectionBase<Stream> {
 public:
  // `on_end` runs when the socket is closed.
  Stream(std::shared_ptr<TransportContext> shared, AuthenticatedSocket authenticated,
         std::function<void()> on_end)
      : ConnectionBase(std::move(shared)),
        fd_(authenticated.socket.Release()),
        tls_(std::move(authenticated.tls)),
        on_end_(std::move(on_end)),
        reader_(*shared_),
        stall_(shared_->loop, shared_->options.stall_timeout) {
    peer_ = std::move(authenticated.peer);
    if (tls_ != nullptr) peer_roles_ = tls_->peer_roles();
    watch_ = shared_->loop.impl().Watch(fd_, false, false, this);
  }
  ~Stream() { CloseSocket(); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Allows callbacks from now on, from the loop.
  void Start(Receiver* receiver) {
    receiver_ = receiver;
    if (open_) shared_->loop.impl().Rewatch(watch_, true, want_write_);
    if (tls_ != nullptr && tls_->readable()) ReceiveLater();
  }
  // Reports silence of the peer's host to the receiver.
  void WatchForSilence() {
    shared_->loop.After(SilenceCheck::kInterval, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self == nullptr || !self->open_) return;
      const bool silent = self->silence_.Silent(SampleLink(self->fd_));
      if (silent != std::exchange(self->silent_, silent) && self->handle_ != nullptr)
        self->receiver_->OnSilence(*self->handle_, silent);
      if (self->open_) self->WatchForSilence();
    });
  }
  void End(Status why) {
    if (!open_) return;
    CloseSocket();
    ReportEnd(queue_.TakeUnsent(), std::move(why));
  }

 private:
  friend ConnectionBase;
  friend StallTimer;

  // ---- receiving

  void OnReady(bool readable, bool writable) override {
    const auto self = shared_from_this();  // a callback may destroy the connection
    if (writable && want_write_) Flush();
    if (readable && open_ && receiver_ != nullptr && !receives_later_) Receive();
    if (open_ && (want_write_ || reader_.left() > kSmallBytes)) {
      shared_->loop.impl().KeepPolling(shared_->loop.Now() + kAwake);
    }
    stall_.Watch(*this);
  }

  void Receive() {
    for (size_t budget = kTurnBytes; open_ && budget > 0;) {
      std::array<iovec, kMaxVectors> vectors;
      size_t direct = 0;
      size_t count =
          reader_.Gather(std::span(vectors).first(kMaxVectors - 1), std::min(budget, kCallBytes), &direct);
      size_t wanted = direct;
      if (direct == reader_.left()) {  // the next message may have arrived, too
        vectors[count++] = {shared_->staging.data(), shared_->staging.size()};
        wanted += shared_->staging.size();
      }
      const Result<size_t> got = Read(std::span(vectors).first(count));
      if (!got.ok()) return End(got.status());
      const size_t bytes = *got;
      if (bytes == 0) return;
      shared_->bytes_received.Add(bytes);
      budget -= std::min(budget, bytes);
      if (direct > 0) reader_.Advance(std::min(bytes, direct), *receiver_, *handle_, open_);
      if (bytes > direct && open_) {
        const ByteView ahead = ByteView(shared_->staging).first(bytes - direct);
        const Status status = reader_.Take(ahead, *receiver_, *handle_, open_);
        if (!status.ok()) return End(status.With(peer_));
      }
      if (bytes < wanted) return;  // the socket is empty
    }
    if (open_ && tls_ != nullptr && tls_->readable()) ReceiveLater();
  }

  // The socket does not report what TLS has read ahead.
  void ReceiveLater() {
    receives_later_ = true;
    shared_->loop.Post([self = shared_from_this()] {
      self->receives_later_ = false;
      if (self->open_ && self->receiver_ != nullptr) self->OnReady(true, false);
    });
  }

  // 0: nothing has arrived.
  Result<size_t> Read(std::span<const iovec> vectors) {
    const auto closed = [this] {
      return Status(Code::kUnavailable, "connection to " + peer_ + " closed by the peer" +
                                            (reader_.in_message() ? " in the middle of a message" : ""));
    };
    const auto lost = [this](const std::string& why) {
      return Status(Code::kUnavailable, "connection to " + peer_ + " lost: " + why);
    };
    if (tls_ != nullptr) {
      Result<size_t> got = tls_->Read(vectors);
      if (got.ok()) return got;
      return tls_->closed_by_peer() ? closed() : lost(got.status().message());
    }
    while (true) {
      const ssize_t got = readv(fd_, vectors.data(), static_cast<int>(vectors.size()));
      if (got > 0) return static_cast<size_t>(got);
      if (got == 0) return closed();
      if (errno == EAGAIN || errno == EWOULDBLOCK) return size_t{0};
      if (errno != EINTR) return lost(std::strerror(errno));
    }
  }

  // ---- sending

  void Send(uint8_t type, Bytes header, std::vector<ByteView> payload, Done done) {
    const auto payload_bytes = BytesToSend(open_, header, payload, &done);
    if (!payload_bytes) return;
    const bool first = queue_.empty();
    queue_.Push(type, std::move(header), std::move(payload), *payload_bytes, std::move(done));
    if (!first) return;
    sent_time_ = shared_->loop.Now();
    if (background_ != nullptr) AdjustRate();
    Flush();
    stall_.Watch(*this);
  }

  void Flush() {
    for (size_t budget = kTurnBytes; open_ && !queue_.empty() && budget > 0;) {
      std::array<iovec, kMaxVectors> vectors;
      size_t wanted = 0;
      const size_t count = queue_.Gather(vectors, std::min(budget, kCallBytes), &wanted);
      const Result<size_t> sent = Write(std::span(vectors).first(count));
      if (!sent.ok()) return End(sent.status().With("connection to " + peer_ + " lost"));
      const size_t bytes = *sent;
      if (bytes == 0) break;
      shared_->bytes_sent.Add(bytes);
      budget -= std::min(budget, bytes);
      sent_time_ = shared_->loop.Now();
      ReportSent(bytes);
      if (bytes < wanted && tls_ == nullptr) break;  // the socket is full
    }
    WantWrite(!queue_.empty());
  }

  // 0: the socket is full.
  Result<size_t> Write(std::span<iovec> vectors) {
    if (tls_ != nullptr) {
      bool moved = false;
      const Result<size_t> sent = tls_->Write(vectors, &moved);
      if (moved) sent_time_ = shared_->loop.Now();
      return sent;
    }
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = vectors.size();
    while (true) {
      const ssize_t sent = sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent >= 0) return static_cast<size_t>(sent);
      if (errno == EAGAIN || errno == EWOULDBLOCK) return size_t{0};
      if (errno != EINTR) return Status(Code::kUnavailable, std::strerror(errno));
    }
  }

  // Advances by the sent bytes. Completed callbacks run from the loop.
  void ReportSent(size_t bytes) {
    const bool first = sent_.empty();
    queue_.Consume(bytes, &sent_);
    if (!first || sent_.empty()) return;
    shared_->loop.Post([self = shared_from_this()] {
      for (auto& done : std::exchange(self->sent_, {})) {
        if (self->handle_ != nullptr) done({});
      }
    });
  }

  void WantWrite(bool want) {
    if (want == want_write_ || !open_) return;
    want_write_ = want;
    shared_->loop.impl().Rewatch(watch_, receiver_ != nullptr, want);
  }

  // ---- the end

  void Detach() {
    handle_ = nullptr;
    CloseSocket();
  }

  void CloseSocket() {
    if (!open_) return;
    shared_->loop.impl().Unwatch(watch_);
    open_ = false;
    tls_.reset();
    close(std::exchange(fd_, -1));
    if (on_end_ != nullptr) std::exchange(on_end_, nullptr)();
  }

  std::optional<StallTimer::Awaited> Awaiting() const {
    if (!open_ || (!reader_.in_message() && queue_.empty())) return std::nullopt;
    const bool receiving = reader_.in_message() && (queue_.empty() || reader_.moved() < sent_time_);
    return StallTimer::Awaited{receiving ? reader_.moved() : sent_time_, receiving};
  }
  void OnStall(bool receiving) { End(shared_->OnStall(peer_, receiving)); }

  // ---- giving way

  void SendInBackground() {
    if (open_ && background_ == nullptr) background_ = std::make_unique<BackgroundSender>(fd_);
  }

  // Runs while there is something to send.
  void AdjustRate() {
    if (adjusts_rate_) return;
    background_->OnInterval(shared_->loop.Now());
    adjusts_rate_ = true;
    shared_->loop.After(BackgroundRate::kInterval, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self == nullptr) return;
      self->adjusts_rate_ = false;
      if (self->open_ && !self->queue_.empty()) self->AdjustRate();
    });
  }

  int fd_;                           // -1 once ended
  bool open_ = true;                 // fd_ >= 0
  std::unique_ptr<TlsSession> tls_;  // null: no TLS
  std::function<void()> on_end_;
  uint64_t watch_ = 0;

  FrameReader reader_;
  FrameQueue queue_;
  bool want_write_ = false;
  bool receives_later_ = false;
  std::vector<Done> sent_;  // completed; called from the loop
  Time sent_time_{};        // when the queue last progressed

  StallTimer stall_;
  SilenceCheck silence_;
  bool silent_ = false;
  std::unique_ptr<BackgroundSender> background_;  // null: it sends as fast as it can
  bool adjusts_rate_ = false;                     // a timer is set
};

// ---- the transport

// The read buffer of streams: it holds a small message with prefix and header, and fits into the cache.
constexpr size_t kStagingBytes = 64 << 10;

class TcpTransport final : public Transport {
 public:
  TcpTransport(Loop& loop, TransportOptions options)
      : shared_(std::make_shared<TransportContext>(loop, std::move(options))) {
    shared_->staging.resize(kStagingBytes);
  }

  Result<std::unique_ptr<Listener>> Listen(const std::string& address, Accept accept) override {
    return ListenAuthenticated(
        shared_, address, [shared = shared_, accept = std::move(accept)](AuthenticatedSocket authenticated) {
          const std::string host(HostOf(authenticated.peer));
          shared->Accepted(host);
          const auto stream = std::make_shared<Stream>(shared, std::move(authenticated),
                                                       [shared, host] { shared->Ended(host); });
          Receiver* receiver = accept(stream->MakeConnection());
          if (receiver == nullptr) return stream->End({Code::kAborted, "turned away"});
          stream->Start(receiver);
        });
  }

  void Connect(const std::string& address, Receiver* receiver, Duration deadline,
               std::function<void(Result<std::unique_ptr<Connection>>)> done) override {
    const uint64_t number = ++last_dial_;
    dials_[number] = ConnectAuthenticated(
        shared_, address, deadline,
        [this, number, receiver, done = std::move(done)](Result<AuthenticatedSocket> authenticated) {
          dials_.erase(number);
          if (!authenticated.ok()) return done(authenticated.status());
          const auto stream = std::make_shared<Stream>(shared_, std::move(*authenticated), nullptr);
          auto connection = stream->MakeConnection();
          stream->Start(receiver);
          stream->WatchForSilence();
          done(std::move(connection));
        });
  }

 private:
  std::shared_ptr<TransportContext> shared_;
  uint64_t last_dial_ = 0;
  std::map<uint64_t, std::shared_ptr<void>> dials_;  // attempts in progress, by number
};

}  // namespace

std::unique_ptr<Transport> MakeTcpTransport(Loop& loop, TransportOptions options) {
  return std::make_unique<TcpTransport>(loop, std::move(options));
}

}  // namespace leat::net
