#include "net/transports.h"

#include <functional>
#include <set>
#include <string_view>
#include <utility>

#include "net/address.h"
#include "net/inproc/pipe.h"
#include "net/transport_context.h"

namespace leat::net {
namespace {

constexpr std::string_view kHostName = "inproc";  // all peers run in this process

using Connected = std::function<void(Result<std::unique_ptr<Connection>>)>;

// An attempt to connect. It ends on its own loop; until then the other side may post to it.
class InprocConnect : public std::enable_shared_from_this<InprocConnect> {
 public:
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

}  // namespace

struct InprocHub::InprocAcceptor : std::enable_shared_from_this<InprocHub::InprocAcceptor> {
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

Result<std::string> InprocHub::Open(const std::string& address, std::shared_ptr<InprocAcceptor> acceptor) {
  LEAT_ASSIGN_OR_RETURN(const HostPort parts, ParseAddress(address));
  std::lock_guard lock(mutex_);
  const auto named = [&](uint32_t port) { return parts.host + ":" + std::to_string(port); };
  std::string name = named(parts.port);
  for (uint32_t port = 49152; parts.port == 0 && port < 65536; ++port) {
    name = named(port);
    if (!acceptors_.contains(name)) break;
  }
  if (!acceptors_.emplace(name, std::move(acceptor)).second) {
    return Status(Code::kUnavailable, "Address already in use");
  }
  return name;
}

void InprocHub::Shut(const std::string& address) {
  std::lock_guard lock(mutex_);
  acceptors_.erase(address);
}

std::shared_ptr<InprocHub::InprocAcceptor> InprocHub::Find(const std::string& address) {
  std::lock_guard lock(mutex_);
  const auto at = acceptors_.find(address);
  return at == acceptors_.end() ? nullptr : at->second;
}

namespace {

void InprocConnect::Start(InprocHub& hub, Duration deadline) {
  timer_ = shared_->loop.After(deadline, [this] {
    timer_ = 0;
    Finish(Status(Code::kUnavailable, "no answer before the deadline"), nullptr);
  });
  if (const auto acceptor = hub.Find(address_)) return acceptor->OnConnect(shared_from_this());
  Answer({Code::kUnavailable, "Connection refused"}, nullptr);
}

class InprocListener final : public Listener {
 public:
  InprocListener(std::shared_ptr<InprocHub> hub, std::shared_ptr<InprocHub::InprocAcceptor> acceptor,
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
  std::shared_ptr<InprocHub::InprocAcceptor> acceptor_;
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
    const auto acceptor = std::make_shared<InprocHub::InprocAcceptor>();
    acceptor->shared = shared_;
    acceptor->accept = std::move(accept);
    acceptor->loop = &shared_->loop;
    auto opened = hub_->Open(address, acceptor);
    if (!opened.ok()) return opened.status().With("cannot listen on " + address);
    return std::unique_ptr<Listener>(new InprocListener(hub_, acceptor, *opened));
  }

  void Connect(const std::string& address, Receiver* receiver, Duration deadline, Connected done) override {
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

}  // namespace

std::unique_ptr<Transport> MakeInprocTransport(Loop& loop, std::shared_ptr<InprocHub> hub,
                                               TransportOptions options) {
  return std::make_unique<InprocTransport>(loop, std::move(hub), std::move(options));
}

}  // namespace leat::net
