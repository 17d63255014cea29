// The ucx transport: connections of the tcp transport that negotiate to continue over UCX.
//
// Four messages on the socket negotiate the path (docs/formats/frame.md). The connecting side describes where
// its secret is. The accepting side returns that secret, the location of its own, and a UCX address. The
// connecting side returns the second secret and its address. Both greet each other over UCX, and the
// accepting side announces the path. Either side may choose tcp instead. The socket stays open, because it
// reports the death of a peer at once.
#include "net/transports.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/log.h"
#include "net/connection_base.h"
#include "net/same_host/same_host_peer.h"
#include "net/ucx/ucx_endpoint.h"
#include "net/ucx/ucx_stream.h"

namespace leat::net {
namespace {

enum class UcxPath : uint8_t { kTcp = 0, kHost = 1, kNetwork = 2 };
enum Step : uint8_t { kOffer = 1, kAnswer = 2, kCommit = 3, kGo = 4, kBye = 5 };

// Timeout of the greetings over UCX; then the connection stays on tcp. A pause of this process does not count
// against them (connection_base.h).
constexpr Duration kGreetingTimeout = std::chrono::seconds(1);
constexpr uint32_t kMaxAddressBytes = 16 << 10;
constexpr uint32_t kMaxNegotiationBytes = kMaxAddressBytes + (1 << 10);

class UcxConnection;

// State shared by all connections of one transport.
struct UcxShared : TransportContext {
  UcxShared(Loop& its_loop, const TransportOptions& its_options)
      : TransportContext(its_loop, its_options),
        trusted_network(options.trusted_network && options.tls == nullptr),
        connections(metrics().gauge("leat_net_ucx_connections", "Connections over UCX.")) {}

  // UCX is set up on first use. A failed attempt is not repeated.
  Result<std::shared_ptr<UcxContext>> Context(UcxPath path) {
    auto& made = path == UcxPath::kHost ? host : network;
    if (!made) {
      made = path == UcxPath::kHost ? UcxContext::ForHost(trusted_network)
                                    : UcxContext::ForNetwork(options.network_transports);
    }
    return *made;
  }

  // Says once why payloads within the host are slower than they could be. A host without UCX is no surprise.
  void Explain(UcxPath path, const Status& why) {
    if (path != UcxPath::kHost || why.code() == Code::kNotFound || std::exchange(explained, true)) return;
    std::error_code error;
    const auto space = std::filesystem::space("/dev/shm", error);
    const std::string room =
        error ? "" : "; /dev/shm has " + std::to_string(space.available >> 10) + " KiB free";
    spdlog::warn("payloads within this host go over tcp, without shared memory: {}{}", why.message(), room);
  }

  bool trusted_network;
  bool explained = false;
  metrics::Gauge& connections;  // over UCX
  SameHostProof same_host_proof;
  std::set<std::shared_ptr<UcxConnection>> leaving;  // closed, but the peer may still read shared payloads
  bool over = false;                                 // the transport is destroyed: none is kept
  std::optional<Result<std::shared_ptr<UcxContext>>> host, network;
};

void PutSecret(ByteWriter& out, const std::optional<SameHostPeer>& same_host_peer) {
  out.PutRaw(same_host_peer ? same_host_peer->secret : Secret{});
}
Secret GetSecret(ByteReader& in) {
  Secret secret{};
  const ByteView bytes = in.GetRaw(secret.size());
  std::copy(bytes.begin(), bytes.end(), secret.begin());
  return secret;
}

// A connection: first the negotiation, then messages over the negotiated path.
class UcxConnection final : public Receiver, public ConnectionBase<UcxConnection> {
 public:
  // Called once: ok if the connection may be made and started, else the reason why not.
  using OnNegotiated = std::function<void(const std::shared_ptr<UcxConnection>&, const Status&)>;

  UcxConnection(std::shared_ptr<UcxShared> shared, OnNegotiated on_negotiated)
      : ConnectionBase(shared), ucx_(std::move(shared)), on_negotiated_(std::move(on_negotiated)) {}
  ~UcxConnection() override { Drop(); }
  UcxConnection(const UcxConnection&) = delete;
  UcxConnection& operator=(const UcxConnection&) = delete;

  // Offer starts the negotiation on the connecting side, Await on the accepting side.
  void Offer(std::unique_ptr<Connection> socket) {
    connects_ = true;
    Adopt(std::move(socket));
    ByteWriter out;
    out.Put(static_cast<uint8_t>(options().shared_memory));
    out.Put(static_cast<uint8_t>(ucx_->trusted_network));
    ucx_->same_host_proof.Describe(out);
    socket_->Send(kOffer, out.Take(), {});
  }
  void Await(std::unique_ptr<Connection> socket) {
    Adopt(std::move(socket));
    timer_ = loop().After(options().handshake_timeout, [this] {
      timer_ = 0;
      FinishNegotiation({Code::kDeadlineExceeded,
                         "no agreement on a path (tcp or UCX) with " + peer_ + " before the deadline"});
    });
  }
  // Closes without a callback.
  void Drop() {
    on_negotiated_ = nullptr;
    loop().Cancel(std::exchange(timer_, 0));
    loop().Cancel(std::exchange(greeting_timer_, 0));
    const auto stream = stream_;
    DropStream();
    Leave(stream != nullptr ? stream->TakeUnreleased() : std::vector<Done>{});
  }
  // No peer reads its shared payloads any more.
  void ReleasePayloads() {
    const auto self = shared_from_this();
    unreleased_.clear();
    socket_.reset();
    ucx_->leaving.erase(self);
  }
  // A peer may read them for as long as it has them mapped, even after this process has ended: they are never
  // released.
  void AbandonPayloads() {
    static std::mutex mutex;
    static auto& abandoned = *new std::vector<Done>;
    {
      const std::lock_guard lock(mutex);
      std::ranges::move(unreleased_, std::back_inserter(abandoned));
    }
    ReleasePayloads();
  }

  // After the negotiation, as MakeConnection.
  void Start(Receiver* receiver) {
    receiver_ = receiver;
    if (stream_ != nullptr) stream_->Start(receiver, handle_);
  }
  void End(Status why) {
    if (stream_ == nullptr) {
      if (socket_ != nullptr) socket_->Close(std::move(why));
      return;
    }
    if (!open_) return;
    open_ = false;
    ucx_->connections.Add(-1);
    ReportEnd(stream_->Shut(), std::move(why));
    // Not earlier: until then the receiver may read payloads that the peer reuses once it hears of this.
    loop().Post([self = shared_from_this()] {
      if (self->stream_ != nullptr) self->Leave(self->stream_->TakeUnreleased());
    });
  }

 private:
  friend ConnectionBase;

  void Detach() {
    handle_ = nullptr;
    Drop();
  }
  void HoldView() {
    if (stream_ != nullptr) stream_->HoldView();
  }
  void ReleaseViews(uint32_t messages) {
    if (stream_ != nullptr) stream_->ReleaseViews(messages);
  }
  Loop& loop() { return ucx_->loop; }
  const TransportOptions& options() const { return ucx_->options; }
  void Adopt(std::unique_ptr<Connection> socket) {
    socket_ = std::move(socket);
    peer_ = socket_->peer();
    peer_roles_ = socket_->peer_roles();
  }

  // ---- upcalls of the socket
  Places OnHeader(Connection&, uint8_t type, ByteView header, uint64_t payload_bytes) override {
    const auto self = shared_from_this();
    if (!unreleased_.empty() || (on_negotiated_ == nullptr && stream_ != nullptr)) {
      if (type != kBye || !header.empty() || payload_bytes > 0) return Unexpected();
      return Spans{};
    }
    if (on_negotiated_ == nullptr && stream_ == nullptr && handle_ != nullptr && receiver_ != nullptr) {
      // The socket's limit leaves room for the negotiation.
      if (header.size() > options().max_header_bytes)
        return Status(Code::kDataLoss, "a header of " + std::to_string(header.size()) + " bytes, at most " +
                                           std::to_string(options().max_header_bytes) + " are allowed");
      return receiver_->OnHeader(*handle_, type, header, payload_bytes);
    }
    if (on_negotiated_ == nullptr || payload_bytes > 0) return Unexpected();
    step_ = type;
    step_header_.assign(header.begin(), header.end());
    return Spans{};
  }
  void OnSegment(Connection&, size_t i) override {
    const auto self = shared_from_this();
    if (handle_ != nullptr && receiver_ != nullptr) receiver_->OnSegment(*handle_, i);
  }
  void OnMessage(Connection&) override {
    const auto self = shared_from_this();
    if (!unreleased_.empty()) return ReleasePayloads();
    // A peer that sends bye no longer reads shared payloads.
    if (on_negotiated_ == nullptr && stream_ != nullptr)
      return PeerLeft({Code::kUnavailable, "connection closed by " + peer_});
    if (on_negotiated_ == nullptr) {
      if (handle_ != nullptr && receiver_ != nullptr) receiver_->OnMessage(*handle_);
      return;
    }
    ByteReader in(step_header_);
    if (Status status = OnStep(in); !status.ok()) FinishNegotiation(status);
  }
  void OnSilence(Connection&, bool silent) override {
    const auto self = shared_from_this();
    if (handle_ != nullptr && receiver_ != nullptr) receiver_->OnSilence(*handle_, silent);
  }
  void OnClosed(Connection&, const Status& why) override {
    const auto self = shared_from_this();
    if (!unreleased_.empty()) return ReleasePayloads();
    if (on_negotiated_ != nullptr) return FinishNegotiation(why);
    if (stream_ == nullptr) {
      if (handle_ != nullptr && receiver_ != nullptr) receiver_->OnClosed(*handle_, why);
      return;
    }
    PeerLeft(why);
    socket_.reset();
  }
  void PeerLeft(const Status& why) {
    stream_->Drain();  // delivers the peer's last messages
    if (!open_) return;
    End(stream_->in_message() ? Status(why.code(), why.message() + " in the middle of a message") : why);
  }

  // Closes the socket as soon as the peer cannot read the shared payloads any more. A bye tells the peer that
  // the connection has ended; its own bye, or the end of its socket, confirms the same.
  void Leave(std::vector<Done> lent) {
    if (!unreleased_.empty()) return;  // it is being closed
    const auto self = weak_from_this().lock();
    if (lent.empty() || socket_ == nullptr || self == nullptr) {
      socket_.reset();
      return;
    }
    unreleased_ = std::move(lent);
    if (ucx_->over) return AbandonPayloads();
    ucx_->leaving.insert(self);
    socket_->Send(kBye, {}, {});
  }

  // ---- negotiation
  static Status Unexpected() {
    return {Code::kDataLoss, "unexpected message during the negotiation of the path"};
  }

  Status OnStep(ByteReader& in) {
    if (step_ == kOffer && !connects_ && next_ == kOffer) return OnOffer(in);
    if (step_ == kAnswer && connects_ && next_ == kOffer) return OnAnswer(in);
    if (step_ == kCommit && !connects_ && next_ == kCommit) return OnCommit(in);
    if (step_ == kGo && connects_ && next_ == kGo) return OnGo(in);
    return Unexpected();
  }

  Status OnOffer(ByteReader& in) {
    const bool memory = in.Get<uint8_t>() != 0;
    const bool network = in.Get<uint8_t>() != 0;
    const std::optional<SameHostPeer> same_host_peer = FindSameHostPeer(in);
    if (!in.Done()) return Unexpected();
    if (same_host_peer && memory && options().shared_memory) {
      OpenStream(UcxPath::kHost, same_host_peer);
    } else if (network && ucx_->trusted_network) {
      OpenStream(UcxPath::kNetwork, same_host_peer);
    }
    next_ = kCommit;
    ByteWriter out;
    out.Put(path_);
    if (path_ != UcxPath::kTcp) {
      PutSecret(out, same_host_peer);
      ucx_->same_host_proof.Describe(out);
      out.PutString(AsText(stream_->address()));
    }
    socket_->Send(kAnswer, out.Take(), {});
    if (path_ == UcxPath::kTcp) FinishNegotiation({});
    return {};
  }

  Status OnAnswer(ByteReader& in) {
    const UcxPath path = in.Get<UcxPath>();
    if (path == UcxPath::kTcp) {
      if (!in.Done()) return Unexpected();
      FinishNegotiation({});
      return {};
    }
    const Secret mine = GetSecret(in);
    const std::optional<SameHostPeer> same_host_peer = FindSameHostPeer(in);
    const std::string address = in.GetString(kMaxAddressBytes);
    if (!in.Done() || path > UcxPath::kNetwork) return Unexpected();
    const bool right =
        path == UcxPath::kHost ? same_host_peer && ucx_->same_host_proof.Is(mine) : ucx_->trusted_network;
    if (right) OpenStream(path, same_host_peer);
    if (stream_ != nullptr && !stream_->Connect(AsBytes(address), [this] { OnGreeting(); }).ok())
      DropStream();
    next_ = kGo;
    ByteWriter out;
    out.Put(path_);
    if (path_ != UcxPath::kTcp) {
      PutSecret(out, same_host_peer);
      out.PutString(AsText(stream_->address()));
    }
    socket_->Send(kCommit, out.Take(), {});
    if (path_ == UcxPath::kTcp) FinishNegotiation({});
    return {};
  }

  Status OnCommit(ByteReader& in) {
    const UcxPath path = in.Get<UcxPath>();
    if (path == UcxPath::kTcp && in.Done()) {
      DropStream();
      FinishNegotiation({});
      return {};
    }
    const Secret mine = GetSecret(in);
    const std::string address = in.GetString(kMaxAddressBytes);
    if (!in.Done() || path != path_) return Unexpected();
    if (path == UcxPath::kHost && !ucx_->same_host_proof.Is(mine)) return Unexpected();
    next_ = kGo;
    if (!stream_->Connect(AsBytes(address), [this] { OnGreeting(); }).ok()) {
      AnnouncePath(UcxPath::kTcp);
      return {};
    }
    greeting_since_ = loop().Now();
    AwaitGreeting();
    return {};
  }
  void AwaitGreeting() {
    greeting_timer_ = loop().After(greeting_check_.interval(), [this] {
      greeting_timer_ = 0;
      if (greeting_check_.Stalled(loop().Now(), greeting_since_)) return AnnouncePath(UcxPath::kTcp);
      AwaitGreeting();
    });
  }

  // The accepting side announces the path.
  void AnnouncePath(UcxPath path) {
    loop().Cancel(std::exchange(greeting_timer_, 0));
    if (path == UcxPath::kTcp) DropStream();
    ByteWriter out;
    out.Put(path_);
    socket_->Send(kGo, out.Take(), {});
    FinishNegotiation({});
  }

  Status OnGo(ByteReader& in) {
    const UcxPath path = in.Get<UcxPath>();
    if (!in.Done() || (path != UcxPath::kTcp && path != path_)) return Unexpected();
    path_announced_ = true;
    if (path == UcxPath::kTcp) DropStream();
    if (stream_ == nullptr || stream_->connected())
      FinishNegotiation({});  // otherwise once the greeting has arrived or timed out
    return {};
  }

  void OnGreeting() {
    if (!connects_) return AnnouncePath(path_);
    if (path_announced_) FinishNegotiation({});
  }

  // Continues without a UCX stream if none can be made.
  void OpenStream(UcxPath path, const std::optional<SameHostPeer>& same_host_peer) {
    auto context = ucx_->Context(path);
    if (!context.ok()) return ucx_->Explain(path, context.status());
    stream_ =
        std::make_shared<UcxStream>(ucx_, *context, peer_, path == UcxPath::kHost ? same_host_peer->pid : 0,
                                    [weak = weak_from_this()](Status why) {
                                      if (const auto self = weak.lock()) self->Failed(std::move(why));
                                    });
    if (const Status opened = stream_->Open(); opened.ok()) {
      path_ = path;
    } else {
      stream_.reset();
      ucx_->Explain(path, opened);
    }
  }
  void Failed(Status why) {
    if (on_negotiated_ != nullptr) return FinishNegotiation(why);
    End(std::move(why));
  }
  void DropStream() {
    path_ = UcxPath::kTcp;
    if (stream_ == nullptr) return;
    if (std::exchange(open_, false)) ucx_->connections.Add(-1);
    std::exchange(stream_, nullptr)->Detach();
  }

  void FinishNegotiation(const Status& status) {
    if (on_negotiated_ == nullptr) return;
    const auto self = shared_from_this();
    loop().Cancel(std::exchange(timer_, 0));
    loop().Cancel(std::exchange(greeting_timer_, 0));
    const auto on_negotiated = std::exchange(on_negotiated_, nullptr);
    if (stream_ != nullptr && status.ok()) {
      open_ = true;
      ucx_->connections.Add(1);
    }
    on_negotiated(self, status);
  }

  void Send(uint8_t type, Bytes header, std::vector<ByteView> payload, Done done) {
    const bool open = stream_ == nullptr || open_;  // the socket tracks its own state
    const auto payload_bytes = BytesToSend(open, header, payload, &done);
    if (!payload_bytes) return;
    if (stream_ == nullptr)
      return socket_->Send(type, std::move(header), std::move(payload), std::move(done));
    stream_->Send(type, std::move(header), std::move(payload), *payload_bytes, std::move(done));
  }

  const std::shared_ptr<UcxShared> ucx_;
  OnNegotiated on_negotiated_;  // null: negotiated
  std::unique_ptr<Connection> socket_;

  // ---- negotiation
  bool connects_ = false;
  uint8_t step_ = 0;   // type of the last received message
  Bytes step_header_;  // its contents
  Step next_ = kOffer;
  UcxPath path_ = UcxPath::kTcp;
  bool path_announced_ = false;  // the accepting side has announced the path
  uint64_t timer_ = 0;
  uint64_t greeting_timer_ = 0;
  StallCheck greeting_check_{kGreetingTimeout};
  Time greeting_since_{0};

  // ---- after the negotiation
  std::shared_ptr<UcxStream> stream_;  // null: over the socket
  bool open_ = false;                  // stream_ is open
  std::vector<Done> unreleased_;       // not empty: it has ended, and the peer may not know yet
};

// ---- accepting

// Accepted connections whose negotiation is not complete.
class UcxPendingConnections final : public std::enable_shared_from_this<UcxPendingConnections> {
 public:
  UcxPendingConnections(std::shared_ptr<UcxShared> shared, Transport::Accept accept)
      : shared_(std::move(shared)), accept_(std::move(accept)) {}

  Receiver* Admit(std::unique_ptr<Connection> socket) {
    const auto connection = std::make_shared<UcxConnection>(
        shared_,
        [weak = weak_from_this()](const std::shared_ptr<UcxConnection>& on_negotiated, const Status& status) {
          if (const auto self = weak.lock()) self->OnNegotiationEnd(on_negotiated, status);
        });
    connections_.insert(connection);
    connection->Await(std::move(socket));
    return connection.get();
  }
  void Shut() {
    for (const auto& connection : std::exchange(connections_, {})) connection->Drop();
  }

 private:
  void OnNegotiationEnd(const std::shared_ptr<UcxConnection>& connection, const Status& status) {
    connections_.erase(connection);
    if (!status.ok()) {
      shared_->refused.Add();
      return connection->Drop();
    }
    Receiver* const receiver = accept_(connection->MakeConnection());
    if (receiver == nullptr) return connection->End({Code::kAborted, "turned away"});
    connection->Start(receiver);
  }

  const std::shared_ptr<UcxShared> shared_;
  const Transport::Accept accept_;
  std::set<std::shared_ptr<UcxConnection>> connections_;
};

class UcxListener final : public Listener {
 public:
  UcxListener(std::shared_ptr<UcxPendingConnections> pending, std::unique_ptr<Listener> sockets)
      : pending_(std::move(pending)), sockets_(std::move(sockets)) {}
  ~UcxListener() override { pending_->Shut(); }
  const std::string& address() const override { return sockets_->address(); }

 private:
  const std::shared_ptr<UcxPendingConnections> pending_;
  const std::unique_ptr<Listener> sockets_;
};

// ---- the transport

using Connected = std::function<void(Result<std::unique_ptr<Connection>>)>;

class UcxTransport final : public Transport {
 public:
  UcxTransport(Loop& loop, const TransportOptions& options)
      : shared_(std::make_shared<UcxShared>(loop, options)),
        sockets_(MakeTcpTransport(loop, ForSockets(options))) {}
  ~UcxTransport() override {
    for (const auto& dial : std::exchange(dials_, {})) Drop(*dial);
    shared_->over = true;
    while (!shared_->leaving.empty()) (*shared_->leaving.begin())->AbandonPayloads();
  }

  Result<std::unique_ptr<Listener>> Listen(const std::string& address, Accept accept) override {
    const auto pending = std::make_shared<UcxPendingConnections>(shared_, std::move(accept));
    LEAT_ASSIGN_OR_RETURN(auto sockets,
                          sockets_->Listen(address, [pending](std::unique_ptr<Connection> socket) {
                            return pending->Admit(std::move(socket));
                          }));
    return std::unique_ptr<Listener>(new UcxListener(pending, std::move(sockets)));
  }

  void Connect(const std::string& address, Receiver* receiver, Duration deadline, Connected done) override {
    const auto dial = std::make_shared<PendingConnect>();
    dials_.insert(dial);
    dial->finish = [this, dial = dial.get(), address, receiver, done = std::move(done)](Status status) {
      const auto self = Take(dial);
      shared_->loop.Cancel(self->timer);
      if (!status.ok()) {
        Drop(*self);
        return done(std::move(status));
      }
      auto connection = self->connection->MakeConnection();
      self->connection->Start(receiver);
      done(std::move(connection));
    };
    const auto fail = [address](const Status& why) { return why.With("cannot connect to " + address); };
    dial->connection = std::make_shared<UcxConnection>(
        shared_, [dial = dial.get(), fail](const std::shared_ptr<UcxConnection>&, const Status& status) {
          dial->finish(status.ok() ? status : fail(status));
        });
    // The socket and the negotiation share the deadline.
    const Time until = shared_->loop.Now() + deadline;
    sockets_->Connect(
        address, dial->connection.get(), deadline,
        [this, until, fail, weak = std::weak_ptr(dial)](Result<std::unique_ptr<Connection>> socket) {
          const auto self = weak.lock();
          if (self == nullptr) return;
          if (!socket.ok()) return self->finish(socket.status());
          Loop& loop = shared_->loop;
          self->timer = loop.After(std::max(until - loop.Now(), Duration(0)), [dial = self.get(), fail] {
            dial->timer = 0;
            dial->finish(
                fail({Code::kUnavailable, "no agreement on a path (tcp or UCX) before the deadline"}));
          });
          self->connection->Offer(std::move(*socket));
        });
  }

  // RDMA does not encrypt.
  void TrustNetwork(bool trusted) override {
    shared_->trusted_network = trusted && shared_->options.tls == nullptr;
  }
  size_t lingering() const override { return shared_->leaving.size(); }

 private:
  static TransportOptions ForSockets(TransportOptions options) {
    options.max_header_bytes = std::max(options.max_header_bytes, kMaxNegotiationBytes);
    return options;
  }

  // An attempt to connect.
  struct PendingConnect {
    std::shared_ptr<UcxConnection> connection;
    uint64_t timer = 0;
    std::function<void(Status)> finish;
  };

  std::shared_ptr<PendingConnect> Take(PendingConnect* dial) {
    const auto at = std::ranges::find_if(
        dials_, [&](const std::shared_ptr<PendingConnect>& one) { return one.get() == dial; });
    std::shared_ptr<PendingConnect> taken = *at;
    dials_.erase(at);
    return taken;
  }
  void Drop(PendingConnect& dial) {
    shared_->loop.Cancel(std::exchange(dial.timer, 0));
    dial.connection->Drop();
  }

  const std::shared_ptr<UcxShared> shared_;
  const std::unique_ptr<Transport> sockets_;
  std::set<std::shared_ptr<PendingConnect>> dials_;
};

}  // namespace

std::unique_ptr<Transport> MakeUcxTransport(Loop& loop, TransportOptions options) {
  return std::make_unique<UcxTransport>(loop, options);
}

}  // namespace leat::net
