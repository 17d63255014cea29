// A transport within one process, for tests without sockets. Each message is copied once, from the sender's
// memory to the receiver's spans. The contract is that of tcp, including the token. The two ends may be on
// different loops.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/address.h"
#include "net/connection_base.h"
#include "net/framing.h"
#include "net/transport.h"
#include "net/transport_context.h"

namespace leat::net {

// ---- connections

class PipeEnd;

// The state shared by both ends, guarded by the mutex. Messages stay in the sender's memory until the
// receiver's loop copies them.
struct Pipe {
  struct Message {
    uint8_t type = 0;
    Bytes header;
    std::vector<ByteView> payload;
    uint64_t payload_bytes = 0;
    Done done;
  };
  struct Side {
    Loop* loop = nullptr;        // null before this end exists and after it has ended
    std::weak_ptr<PipeEnd> end;  // used on its own loop only
    std::deque<Message> queue;   // outgoing messages
    Time moved{};                // when the queue last progressed
    bool pump_posted = false;    // this end has been asked to read the other's queue
  };
  // Closes the pipe for `side`, notifies the other end and returns the callbacks of undelivered messages.
  std::vector<Done> CloseBy(int side);

  std::mutex mutex;
  bool closed = false;  // by either end
  Side sides[2];
};

// Loop's thread only.
class PipeEnd final : public ConnectionBase<PipeEnd> {
 public:
  // `on_end` runs when this end has ended.
  PipeEnd(std::shared_ptr<TransportContext> shared, std::shared_ptr<Pipe> pipe, int side, std::string peer,
          std::function<void()> on_end)
      : ConnectionBase(std::move(shared)),
        pipe_(std::move(pipe)),
        side_(side),
        on_end_(std::move(on_end)),
        stall_(shared_->loop, shared_->options.stall_timeout) {
    peer_ = std::move(peer);
  }
  ~PipeEnd() { Shut(); }
  PipeEnd(const PipeEnd&) = delete;
  PipeEnd& operator=(const PipeEnd&) = delete;

  // Allows callbacks from now on, from the loop.
  void Start(Receiver* receiver) {
    if (!open_) return;
    receiver_ = receiver;
    std::unique_lock lock(pipe_->mutex);
    if (pipe_->closed) {
      lock.unlock();
      return OnPeerClosed();
    }
    mine().loop = &shared_->loop;
    mine().end = weak_from_this();
    AskToPump(mine());  // messages that the peer has sent already
  }
  void End(Status why) {
    if (open_) ReportEnd(Shut(), std::move(why));
  }
  void OnPeerClosed() {
    End({Code::kUnavailable, "connection to " + peer_ + " closed by the peer" +
                                 (incoming_.active() ? " in the middle of a message" : "")});
  }

 private:
  friend ConnectionBase;
  friend StallTimer;

  // Bytes copied before the lock is released. The sending end may wait for the lock in order to be destroyed.
  static constexpr size_t kCopyBytes = 256 << 10;
  static_assert(kCopyBytes <= kReadAhead);
  // Limit for one loop iteration, so that other connections get their share. An empty message counts as some
  // bytes.
  static constexpr size_t kTurnBytes = 2 << 20;
  static constexpr size_t kMessageBytes = 1 << 10;

  Pipe::Side& mine() { return pipe_->sides[side_]; }
  Pipe::Side& theirs() { return pipe_->sides[1 - side_]; }

  // The lock is held.
  static void AskToPump(Pipe::Side& side) {
    if (side.loop == nullptr || side.pump_posted) return;
    side.pump_posted = true;
    side.loop->Post([weak = side.end] {
      if (const auto end = weak.lock()) end->Pump();
    });
  }

  void Send(uint8_t type, Bytes header, std::vector<ByteView> payload, Done done) {
    const auto payload_bytes = BytesToSend(open_, header, payload, &done);
    if (!payload_bytes) return;
    {
      std::lock_guard lock(pipe_->mutex);
      if (mine().queue.empty()) mine().moved = shared_->loop.Now();
      mine().queue.push_back({type, std::move(header), std::move(payload), *payload_bytes, std::move(done)});
      AskToPump(theirs());
    }
    stall_.Watch(*this);
  }

  std::optional<StallTimer::Awaited> Awaiting() {
    std::lock_guard lock(pipe_->mutex);
    if (!open_ || mine().queue.empty()) return std::nullopt;
    return StallTimer::Awaited{.moved = mine().moved};
  }
  void OnStall(bool receiving) { End(shared_->OnStall(peer_, receiving)); }

  void Pump() {
    {
      std::lock_guard lock(pipe_->mutex);
      mine().pump_posted = false;
    }
    for (size_t budget = kTurnBytes; open_;) {
      const size_t bytes = incoming_.active() ? CopySome() : TakeMessage();
      if (bytes == 0) return;
      if (open_ && !incoming_.active()) EndMessage();
      if (budget > bytes) {
        budget -= bytes;
        continue;
      }
      std::lock_guard lock(pipe_->mutex);
      if (open_) AskToPump(mine());
      return;
    }
  }

  // Returns 0 if there is none.
  size_t TakeMessage() {
    uint8_t type = 0;
    Bytes header;
    uint64_t payload_bytes = 0;
    {
      std::lock_guard lock(pipe_->mutex);
      if (theirs().queue.empty()) return 0;
      auto& message = theirs().queue.front();
      type = message.type;
      header = std::move(message.header);
      payload_bytes = message.payload_bytes;
    }
    const auto& options = shared_->options;
    Status status;
    if (header.size() > options.max_header_bytes || payload_bytes > options.max_payload_bytes) {
      status = Status(Code::kDataLoss, "a message of " + std::to_string(header.size()) + " and " +
                                           std::to_string(payload_bytes) + " bytes, at most " +
                                           std::to_string(options.max_header_bytes) + " and " +
                                           std::to_string(options.max_payload_bytes) + " are allowed");
    } else {
      status = incoming_.Start(*receiver_, *handle_, open_, type, header, payload_bytes);
    }
    if (!status.ok()) End(status.With(peer_));
    return kMessageBytes;
  }

  // Returns 0 if the peer has withdrawn its message.
  size_t CopySome() {
    size_t bytes = 0;
    {
      std::lock_guard lock(pipe_->mutex);
      if (theirs().queue.empty()) return 0;
      const auto& message = theirs().queue.front();
      uint64_t skip = message.payload_bytes - incoming_.left();
      std::array<iovec, 64> room;
      const size_t count = incoming_.Gather(room, kCopyBytes, &bytes);
      size_t at = 0;
      size_t offset = 0;
      for (ByteView piece : message.payload) {
        const uint64_t passed = std::min<uint64_t>(skip, piece.size());
        skip -= passed;
        piece = piece.subspan(passed);
        while (at < count && !piece.empty()) {
          const size_t n = std::min(room[at].iov_len - offset, piece.size());
          std::memcpy(static_cast<std::byte*>(room[at].iov_base) + offset, piece.data(), n);
          piece = piece.subspan(n);
          offset += n;
          if (offset < room[at].iov_len) continue;
          ++at;
          offset = 0;
        }
      }
      theirs().moved = shared_->loop.Now();
    }
    shared_->bytes_received.Add(bytes);
    incoming_.Advance(bytes, *receiver_, *handle_, open_);
    return bytes;
  }

  // Completes the delivered message for its sender.
  void EndMessage() {
    std::lock_guard lock(pipe_->mutex);
    if (theirs().queue.empty()) return;
    auto done = std::move(theirs().queue.front().done);
    theirs().queue.pop_front();
    theirs().moved = shared_->loop.Now();
    if (done == nullptr || theirs().loop == nullptr) return;
    theirs().loop->Post([weak = theirs().end, done = std::move(done)] {
      const auto end = weak.lock();
      if (end != nullptr && end->handle_ != nullptr) done({});
    });
  }

  void Detach() {
    handle_ = nullptr;
    Shut();
  }
  std::vector<Done> Shut() {
    if (!open_) return {};
    open_ = false;
    if (on_end_ != nullptr) std::exchange(on_end_, nullptr)();
    return pipe_->CloseBy(side_);
  }

  const std::shared_ptr<Pipe> pipe_;
  const int side_;
  std::function<void()> on_end_;
  bool open_ = true;
  Incoming incoming_;
  StallTimer stall_;
};

inline std::vector<Done> Pipe::CloseBy(int side) {
  std::lock_guard lock(mutex);
  closed = true;
  sides[side].loop = nullptr;
  const Side& other = sides[1 - side];
  if (other.loop != nullptr) {
    other.loop->Post([weak = other.end] {
      if (const auto end = weak.lock()) end->OnPeerClosed();
    });
  }
  std::vector<Done> unsent;
  for (Message& message : std::exchange(sides[side].queue, {})) {
    if (message.done != nullptr) unsent.push_back(std::move(message.done));
  }
  return unsent;
}

// ---- the transport

struct InprocAcceptor;  // a listener, as seen by connecting transports

// The address table of in-process transports. Transports with the same hub can reach each other. Thread-safe.
class InprocHub {
 public:
  // Registers a listener and returns its address, with a chosen port if `address` has port 0.
  Result<std::string> Open(const std::string& address, std::shared_ptr<InprocAcceptor> acceptor) {
    LEAT_ASSIGN_OR_RETURN(const HostPort parts, ParseAddress(address));
    std::lock_guard lock(mutex_);
    const auto named = [&](uint32_t port) { return parts.host + ":" + std::to_string(port); };
    std::string name = named(parts.port);
    for (uint32_t port = 49152; parts.port == 0 && port < 65536; ++port) {
      name = named(port);
      if (!acceptors_.contains(name)) break;
    }
    if (acceptors_.emplace(name, std::move(acceptor)).second) return name;
    return Status(Code::kUnavailable, "Address already in use");
  }
  void Shut(const std::string& address) {
    std::lock_guard lock(mutex_);
    acceptors_.erase(address);
  }
  std::shared_ptr<InprocAcceptor> Find(const std::string& address) {
    std::lock_guard lock(mutex_);
    const auto at = acceptors_.find(address);
    return at == acceptors_.end() ? nullptr : at->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<InprocAcceptor>> acceptors_;
};

// An attempt to connect. It ends on its own loop; until then the other side may post to it.
class InprocConnect final : public std::enable_shared_from_this<InprocConnect> {
 public:
  using Connected = std::function<void(Result<std::unique_ptr<Connection>>)>;

  InprocConnect(std::shared_ptr<TransportContext> shared, std::string address, Receiver* receiver,
                Connected done, std::function<void(const std::shared_ptr<InprocConnect>&)> forget)
      : shared_(std::move(shared)),
        address_(std::move(address)),
        receiver_(receiver),
        done_(std::move(done)),
        forget_(std::move(forget)) {}

  void Start(InprocHub& hub, Duration deadline);
  // `done` is not called any more.
  void Cancel() {
    shared_->loop.Cancel(std::exchange(timer_, 0));
    std::lock_guard lock(mutex_);
    over_ = true;
  }

  // Thread-safe. `pipe` is set if the listener accepted; its first side belongs to the connecting end.
  void Answer(Status status, std::shared_ptr<Pipe> pipe) {
    std::lock_guard lock(mutex_);
    if (over_) return Abandon(pipe);
    shared_->loop.Post([self = shared_from_this(), status = std::move(status), pipe = std::move(pipe)] {
      self->Finish(status, pipe);
    });
  }
  const std::string& token() const { return shared_->options.token; }

 private:
  static void Abandon(const std::shared_ptr<Pipe>& pipe) {
    if (pipe != nullptr) pipe->CloseBy(0);
  }

  void Finish(const Status& status, const std::shared_ptr<Pipe>& pipe) {
    if (done_ == nullptr || over_) return Abandon(pipe);
    const auto self = shared_from_this();
    Cancel();
    forget_(self);
    const auto done = std::exchange(done_, nullptr);
    if (!status.ok()) return done(status.With("cannot connect to " + address_));
    const auto end = std::make_shared<PipeEnd>(shared_, pipe, 0, address_, nullptr);
    auto connection = end->MakeConnection();
    end->Start(receiver_);
    done(std::move(connection));
  }

  std::shared_ptr<TransportContext> shared_;
  const std::string address_;
  Receiver* receiver_;
  Connected done_;
  std::function<void(const std::shared_ptr<InprocConnect>&)> forget_;
  uint64_t timer_ = 0;
  std::mutex mutex_;
  bool over_ = false;  // written by the loop's thread under the mutex
};

struct InprocAcceptor : std::enable_shared_from_this<InprocAcceptor> {
  static constexpr std::string_view kHostName = "inproc";  // all peers run in this process

  // Thread-safe.
  void OnConnect(const std::shared_ptr<InprocConnect>& dial) {
    std::lock_guard lock(mutex);
    if (loop == nullptr) return dial->Answer({Code::kUnavailable, "Connection refused"}, nullptr);
    loop->Post([self = shared_from_this(), dial] { self->Admit(dial); });
  }

  void Admit(const std::shared_ptr<InprocConnect>& dial) {
    if (loop == nullptr) return dial->Answer({Code::kUnavailable, "Connection refused"}, nullptr);
    if (dial->token() != shared->options.token) {
      shared->refused.Add();
      return dial->Answer({Code::kPermissionDenied, "the peer has the token of another job"}, nullptr);
    }
    if (const char* full = shared->CheckRoom(kHostName); full != nullptr) {
      shared->refused.Add();
      return dial->Answer({Code::kResourceExhausted, full}, nullptr);
    }
    shared->Accepted(kHostName);
    const auto pipe = std::make_shared<Pipe>();
    const auto end = std::make_shared<PipeEnd>(shared, pipe, 1, "inproc:" + std::to_string(++last_peer),
                                               [s = shared] { s->Ended(kHostName); });
    Receiver* receiver = accept(end->MakeConnection());
    if (receiver != nullptr) {
      end->Start(receiver);
    } else {
      end->End({Code::kAborted, "turned away"});
    }
    dial->Answer({}, pipe);
  }

  std::shared_ptr<TransportContext> shared;
  Transport::Accept accept;
  uint64_t last_peer = 0;
  std::mutex mutex;
  Loop* loop = nullptr;  // guarded by the mutex, written by the loop's thread; null once shut
};

inline void InprocConnect::Start(InprocHub& hub, Duration deadline) {
  timer_ = shared_->loop.After(deadline, [this] {
    timer_ = 0;
    Finish(Status(Code::kUnavailable, "no answer before the deadline"), nullptr);
  });
  if (const auto acceptor = hub.Find(address_)) return acceptor->OnConnect(shared_from_this());
  Answer({Code::kUnavailable, "Connection refused"}, nullptr);
}

class InprocListener final : public Listener {
 public:
  InprocListener(std::shared_ptr<InprocHub> hub, std::shared_ptr<InprocAcceptor> acceptor,
                 std::string address)
      : hub_(std::move(hub)), acceptor_(std::move(acceptor)), address_(std::move(address)) {}
  ~InprocListener() override {
    hub_->Shut(address_);
    std::lock_guard lock(acceptor_->mutex);
    acceptor_->loop = nullptr;
  }
  const std::string& address() const override { return address_; }

 private:
  std::shared_ptr<InprocHub> hub_;
  std::shared_ptr<InprocAcceptor> acceptor_;
  std::string address_;
};

class InprocTransport final : public Transport {
 public:
  InprocTransport(Loop& loop, std::shared_ptr<InprocHub> hub, TransportOptions options)
      : shared_(std::make_shared<TransportContext>(loop, std::move(options))), hub_(std::move(hub)) {}
  ~InprocTransport() override {
    for (const auto& dial : dials_) dial->Cancel();
  }

  Result<std::unique_ptr<Listener>> Listen(const std::string& address, Accept accept) override {
    const auto acceptor = std::make_shared<InprocAcceptor>();
    acceptor->shared = shared_;
    acceptor->accept = std::move(accept);
    acceptor->loop = &shared_->loop;
    auto opened = hub_->Open(address, acceptor);
    if (!opened.ok()) return opened.status().With("cannot listen on " + address);
    return std::unique_ptr<Listener>(new InprocListener(hub_, acceptor, *opened));
  }

  void Connect(const std::string& address, Receiver* receiver, Duration deadline,
               InprocConnect::Connected done) override {
    const auto dial = std::make_shared<InprocConnect>(
        shared_, address, receiver, std::move(done),
        [this](const std::shared_ptr<InprocConnect>& ended) { dials_.erase(ended); });
    dials_.insert(dial);
    dial->Start(*hub_, deadline);
  }

 private:
  std::shared_ptr<TransportContext> shared_;
  std::shared_ptr<InprocHub> hub_;
  std::set<std::shared_ptr<InprocConnect>> dials_;
};

inline std::unique_ptr<Transport> MakeInprocTransport(Loop& loop, std::shared_ptr<InprocHub> hub,
                                                      TransportOptions options) {
  return std::make_unique<InprocTransport>(loop, std::move(hub), std::move(options));
}

}  // namespace leat::net
