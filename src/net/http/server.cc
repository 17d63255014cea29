#include "net/http/server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/status.hpp>
#include <charconv>
#include <exception>
#include <functional>
#include <iterator>
#include <list>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "net/address.h"
#include "net/http/connection_limit.h"
#include "net/http/exchange.h"

namespace leat::net::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr size_t kDiscardBytes = 16 << 10;
constexpr auto kSweep = std::chrono::milliseconds(250);
constexpr Duration kLinger = std::chrono::seconds(1);  // for a peer that has its last reply
// A connection is accepted with its first bytes, or after these seconds without one: a flood of silent peers
// does not drive out a peer whose request is on its way.
using DeferAccept = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_DEFER_ACCEPT>;
constexpr int kDeferSeconds = 1;
constexpr size_t kJoined = 16 << 10;  // a body up to this size is sent in one piece with its head

constexpr char kTlsDeadline = 0x16;  // the first byte of a TLS connection

void AppendHead(const Reply& reply, bool keep, std::string* out) {
  const auto reason = boost::beast::http::obsolete_reason(
      boost::beast::http::int_to_status(static_cast<unsigned>(reply.status)));
  *out += "HTTP/1.1 " + std::to_string(reply.status) + ' ' + std::string(reason);
  *out += "\r\nContent-Type: " + reply.type + "\r\n";
  *out += reply.stream == nullptr ? "Content-Length: " + std::to_string(reply.body.size())
                                  : std::string("Transfer-Encoding: chunked");
  *out += "\r\n" + reply.headers;
  if (reply.status == 401) *out += "WWW-Authenticate: Bearer realm=\"leat\"\r\n";
  if (reply.status == 503) *out += "Retry-After: 1\r\n";
  if (!keep) *out += "Connection: close\r\n";
  *out += "\r\n";
}

void LogException() {
  try {
    throw;
  } catch (const std::exception& e) {
    spdlog::error("http: {}", e.what());
  } catch (...) {
    spdlog::error("http: an unknown exception");
  }
}

class Connection;

// State that the connections of a thread share.
struct Thread {
  explicit Thread(size_t its_index) : index(its_index) {}
  const size_t index;
  const std::shared_ptr<TlsBuffers> tls_buffers = std::make_shared<TlsBuffers>();
  asio::io_context context{1};
  std::list<std::weak_ptr<Connection>> connections;  // the thread's own
  bool round_end_posted = false;
  std::atomic<Time> turned{MonotonicClock().Now()};  // for Server::turned
};

struct Shared {
  explicit Shared(Server::Options its_options)
      : options(std::move(its_options)), limit(options.max_connections) {
    bodies.most = std::max(bodies.most, 4 * options.max_body);
    reading.max_body = options.max_body;
    reading.bodies = &bodies;
    if (options.own_names) reading.own_names = &*options.own_names;
  }
  const Server::Options options;
  RequestReader::Options reading;
  Handler* handler = nullptr;
  metrics::Counter* requests = nullptr;
  metrics::Counter* refused = nullptr;
  metrics::Gauge* open = nullptr;
  BodyMemory bodies;
  ConnectionLimit<Connection> limit;
  std::atomic<size_t> connections{0};
  std::atomic<bool> draining{false};
  MonotonicClock clock;
};

// A connection, on its thread.
class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<Shared> shared, std::shared_ptr<Thread> thread, tcp::socket socket)
      : shared_(std::move(shared)),
        thread_(std::move(thread)),
        socket_(std::move(socket)),
        reader_(shared_->reading) {
    shared_->open->Set(static_cast<double>(++shared_->connections));
  }
  ~Connection() { shared_->open->Set(static_cast<double>(--shared_->connections)); }

  // `host`: of the peer, as HostNumber.
  void TakePlace(uint64_t host) { place_ = shared_->limit.Add(shared_from_this(), host); }
  void Begin() {
    if (shared_->options.tls == nullptr) return Next();
    SetDeadline(shared_->options.request_timeout);
    Await(tcp::socket::wait_read, &Connection::BeginTls);
  }
  // At once.
  void Close() {
    error_code ignored;
    socket_.close(ignored);
    tls_.reset();  // its descriptor may be another connection's next
    place_.reset();
    stream_ = nullptr;
    silent_.reset();
  }
  // Makes room for another connection, unless the peer has asked since this one was chosen.
  void CloseIfFirst() {
    error_code ignored;
    const auto unread = [&] {
      return socket_.available(ignored) > 0 || (tls_ != nullptr && tls_->readable());
    };
    if (place_ == nullptr || (idle_ && unread())) return;
    if (shared_->limit.FirstToEnd().get() == this) Close();
  }
  // Now and then.
  void Look(Time now) {
    if (now > deadline_) return Close();
    if (const auto self = std::exchange(silent_, nullptr)) NextPiece();
  }
  // Ends an idle connection; a busy one ends with its reply.
  void Drain() {
    if (idle_) Close();
  }
  void Send(Reply reply) {
    keep_ = reader_.keep_alive() && !shared_->draining && reply.status != 413;
    out_.clear();
    AppendHead(reply, keep_, &out_);
    if (!reader_.head_only()) {
      stream_ = std::move(reply.stream);
      body_ = std::move(reply.body);
    }
    if (body_.size() <= kJoined) {
      out_ += body_;
      body_.clear();
    }
    if (stream_ == nullptr) EndServing();
    Write(stream_ == nullptr ? &Connection::OnReplied : &Connection::NextPiece);
  }

  const std::shared_ptr<Thread>& thread() const { return thread_; }

 private:
  using Step = void (Connection::*)();

  // Keeps the connection, which nothing else does while its request waits.
  class Waiting final : public Exchange, public std::enable_shared_from_this<Waiting> {
   public:
    explicit Waiting(std::shared_ptr<Connection> connection)
        : shared_(connection->shared_), thread_(connection->thread_), connection_(std::move(connection)) {}
    // A connection ends on its thread.
    ~Waiting() override {
      if (connection_ != nullptr) asio::post(thread_->context, [connection = std::move(connection_)] {});
    }
    void Send(Reply reply) override {
      if (const auto connection = std::exchange(connection_, nullptr)) connection->Send(std::move(reply));
    }
    void Post(std::function<void()> work) override {
      asio::post(thread_->context, [self = shared_from_this(), work = std::move(work)] { self->Try(work); });
    }
    // An exception of this server's own part is no reason to end the others.
    void Try(const std::function<void()>& work) {
      try {
        work();
      } catch (...) {
        LogException();
        Send(shared_->handler->Error(500, "an error in this program; its log has the reason"));
      }
    }

   private:
    const std::shared_ptr<Shared> shared_;
    const std::shared_ptr<Thread> thread_;
    std::shared_ptr<Connection> connection_;
  };

  void SetDeadline(Duration from_now) { deadline_ = shared_->clock.Now() + from_now; }
  void EndServing() {
    if (place_ != nullptr && place_->serving()) place_->BeginWaiting();
  }
  void Await(tcp::socket::wait_type ready, Step then) {
    socket_.async_wait(ready, [self = shared_from_this(), then](const error_code& error) {
      error || !self->socket_.is_open() ? self->Close() : ((*self).*then)();
    });
  }

  void BeginTls() {
    char first = 0;
    const ssize_t got = recv(socket_.native_handle(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got <= 0) return Close();
    if (first != kTlsDeadline) return Send(shared_->handler->Error(400, "this listener uses TLS (https)"));
    const Server::Options& options = shared_->options;
    tls_ = options.tls->Begin(socket_.native_handle(),
                              {.side = wire::Side::kAccepts,
                               .peer_roles = options.client_roles,
                               .certificate_required = false,
                               .peer_host = {},
                               .allow_tls_1_2 = options.allow_tls_1_2},
                              thread_->tls_buffers);
    Handshake();
  }
  void Handshake() {
    const Result<bool> complete = tls_->Handshake();
    if (!complete.ok()) return Close();
    if (!*complete) return Await(tcp::socket::wait_read, &Connection::Handshake);
    reader_.SetRoles(tls_->peer_roles());
    Next();
  }

  void Next() {
    idle_ = reader_.idle();
    const bool patient = idle_ && place_ != nullptr && place_->known();
    SetDeadline(patient ? shared_->options.idle_timeout : shared_->options.request_timeout);
    GoOn();
  }
  void GoOn() {
    const RequestReader::Event event = reader_.Next();
    if (event == RequestReader::Event::kRefused) return Send(reader_.TakeRefusal());
    if (place_ != nullptr && !place_->known() && reader_.peer() == Admission::Peer::kKnown)
      place_->BeginWaiting();
    if (event == RequestReader::Event::kRequest) return Dispatch();
    if (event == RequestReader::Event::kMore) return Read();
    out_ = "HTTP/1.1 100 Continue\r\n\r\n";
    Write(&Connection::GoOn);
  }
  void Read() {
    if (tls_ != nullptr) {
      if (!tls_->readable()) return Await(tcp::socket::wait_read, &Connection::ReadTls);
      // Not from here: each request of a pipeline would deepen the stack.
      return asio::post(thread_->context, [self = shared_from_this()] { self->ReadTls(); });
    }
    const std::span<char> space = reader_.Space();
    socket_.async_read_some(asio::buffer(space.data(), space.size()),
                            [self = shared_from_this()](const error_code& error, size_t bytes) {
                              error ? self->Close() : self->OnRead(bytes);
                            });
  }
  void ReadTls() {
    if (tls_ == nullptr) return;  // closed
    const std::span<char> space = reader_.Space();
    const iovec piece{.iov_base = space.data(), .iov_len = space.size()};
    const Result<size_t> got = tls_->Read({&piece, 1});
    if (!got.ok()) return Close();
    *got > 0 ? OnRead(*got) : Read();
  }
  void OnRead(size_t bytes) {
    if (idle_) SetDeadline(shared_->options.request_timeout);
    idle_ = false;
    reader_.Commit(bytes);
    GoOn();
  }

  void Dispatch() {
    shared_->requests->Add();
    if (place_ != nullptr && reader_.peer() != Admission::Peer::kUnknown) place_->BeginServing();
    deadline_ = Time::max();  // the handler replies in time
    EndRoundLater();
    const auto exchange = std::make_shared<Waiting>(shared_from_this());
    exchange->Try([&] { shared_->handler->Handle(thread_->index, reader_.TakeRequest(), exchange); });
  }
  // Posted work runs after that of all sockets that are ready now.
  void EndRoundLater() {
    if (std::exchange(thread_->round_end_posted, true)) return;
    asio::post(thread_->context, [shared = shared_, thread = thread_.get()] {
      thread->round_end_posted = false;
      shared->handler->OnRoundEnd(thread->index);
    });
  }

  // Writes out_ and body_, within the time for it.
  void Write(Step then) {
    SetDeadline(shared_->options.write_timeout);
    written_ = 0;
    then_ = then;
    WriteMore();
  }
  void WriteMore() {
    const auto done = [self = shared_from_this()](const error_code& error, size_t) {
      error ? self->Close() : ((*self).*self->then_)();
    };
    if (tls_ == nullptr) {
      const std::array<asio::const_buffer, 2> pieces{asio::buffer(out_), asio::buffer(body_)};
      return asio::async_write(socket_, pieces, done);
    }
    while (written_ < out_.size() + body_.size()) {
      const size_t of_out = std::min(written_, out_.size()), of_body = written_ - of_out;
      const std::array<iovec, 2> pieces{
          iovec{.iov_base = out_.data() + of_out, .iov_len = out_.size() - of_out},
          iovec{.iov_base = body_.data() + of_body, .iov_len = body_.size() - of_body}};
      bool moved = false;
      const Result<size_t> sent = tls_->Write(pieces, &moved);
      if (!sent.ok()) return Close();
      if (*sent == 0) return Await(tcp::socket::wait_write, &Connection::WriteMore);
      written_ += *sent;
    }
    asio::post(thread_->context, [done] { done({}, 0); });
  }
  void OnReplied() {
    if (keep_) return Next();
    // A socket that is closed with unread bytes resets the connection, and the peer may lose the reply. The
    // peer's further bytes are therefore read, for a while.
    error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    SetDeadline(kLinger);
    out_.resize(kDiscardBytes);
    Discard();
  }
  void Discard() {
    socket_.async_read_some(asio::buffer(out_), [self = shared_from_this()](const error_code& error, size_t) {
      error ? self->Close() : self->Discard();
    });
  }
  // Sends the next piece of the stream. If there is none yet, Look asks again, and until then the connection
  // keeps itself alive.
  void NextPiece() {
    if (stream_ == nullptr) return;  // it has ended
    std::optional<std::string> piece;
    try {
      piece = stream_();
    } catch (...) {
      LogException();
      return Close();
    }
    if (piece && piece->empty()) {
      deadline_ = Time::max();
      silent_ = shared_from_this();
      return;
    }
    body_ = piece.value_or("") + "\r\n";
    char size[sizeof(size_t) * 2];
    out_.assign(size, std::to_chars(size, std::end(size), piece ? piece->size() : 0, 16).ptr);
    out_ += "\r\n";
    if (piece) return Write(&Connection::NextPiece);
    stream_ = nullptr;
    EndServing();
    Write(&Connection::OnReplied);
  }

  const std::shared_ptr<Shared> shared_;
  const std::shared_ptr<Thread> thread_;
  tcp::socket socket_;
  std::unique_ptr<TlsSession> tls_;                            // null: none, or not begun
  std::unique_ptr<ConnectionLimit<Connection>::Place> place_;  // null: the connection has ended
  RequestReader reader_;
  Time deadline_ = Time::max();
  bool idle_ = true;
  bool keep_ = false;  // the connection stays open after the reply
  std::string out_, body_;
  size_t written_ = 0;  // written bytes of both, with TLS
  Step then_ = nullptr;
  Stream stream_;                       // stream that is being sent
  std::shared_ptr<Connection> silent_;  // this one, while the stream has no piece
};

class AsioServer final : public Server {
 public:
  explicit AsioServer(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {
    for (size_t i = 0; i < std::max<size_t>(1, shared_->options.threads); ++i)
      threads_.push_back(std::make_shared<Thread>(i));
    acceptor_.emplace(threads_[0]->context);
  }

  Status Listen() {
    LEAT_ASSIGN_OR_RETURN(ListeningSocket at, ListenOn(shared_->options.address));
    address_ = at.address.ToString();
    acceptor_->assign(at.address.family() == AF_INET6 ? tcp::v6() : tcp::v4(), at.socket.Release());
    acceptor_->set_option(DeferAccept(kDeferSeconds));
    return {};
  }

  void Run() {
    Accept();
    for (const auto& thread : threads_) {
      sweeps_.emplace_back(thread->context);
      Sweep(*thread, sweeps_.back());
    }
    for (const auto& thread : threads_) {
      runners_.emplace_back([context = &thread->context] {
        const auto guard = asio::make_work_guard(*context);
        while (!context->stopped()) {
          try {
            context->run();
          } catch (...) {  // memory is short: the connection whose handler it was has ended
            LogException();
          }
        }
      });
    }
  }

  ~AsioServer() override {
    shared_->draining = true;
    for (const auto& thread : threads_) thread->context.stop();
    for (auto& runner : runners_) runner.join();
    error_code ignored;
    acceptor_->close(ignored);
    // A pending operation holds its connection, which holds its thread: the remaining ones end here. The
    // second time is for connections that were about to begin.
    for (int i = 0; i < 2; ++i) {
      for (const auto& thread : threads_) {
        for (const auto& weak : thread->connections) {
          if (const auto connection = weak.lock()) connection->Close();
        }
        thread->context.restart();
        thread->context.poll();
      }
    }
  }

  const std::string& address() const override { return address_; }
  Time turned() const override {
    Time first = Time::max();
    for (const auto& thread : threads_)
      first = std::min(first, thread->turned.load(std::memory_order_relaxed));
    return first;
  }

  void Drain(Duration deadline) override {
    shared_->draining = true;
    asio::post(threads_[0]->context, [this] {
      error_code ignored;
      acceptor_->close(ignored);
    });
    for (const auto& thread : threads_) {
      asio::post(thread->context, [thread] {
        for (const auto& weak : thread->connections) {
          if (const auto connection = weak.lock()) connection->Drain();
        }
      });
    }
    const Time until = shared_->clock.Now() + deadline;
    while (shared_->connections > 0 && shared_->clock.Now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

 private:
  void Accept() {
    if (accepting_ || accepted_ || shared_->draining) return;
    const size_t first = shared_->options.handlers_block && threads_.size() > 1 ? 1 : 0;
    Thread& thread = *threads_[first + next_++ % (threads_.size() - first)];
    acceptor_->async_accept(thread.context, [this, &thread](const error_code& error, tcp::socket socket) {
      accepting_ = false;
      if (error == asio::error::operation_aborted || shared_->draining) return;
      if (error == asio::error::no_descriptors || error == asio::error::no_buffer_space ||
          error == asio::error::no_memory || error == boost::system::errc::too_many_files_open_in_system) {
        (void)EndOne([this] { Accept(); });
        return;  // if none can end, the next sweep tries again
      }
      if (error) return Accept();
      accepted_.emplace(std::move(socket));
      AdmitTo(thread);
    });
    accepting_ = true;
  }

  // Ends the connection that is to make room, on its thread, and then calls `done` on the accepting one.
  // False: all are being served.
  bool EndOne(std::function<void()> done) {
    auto first = shared_->limit.FirstToEnd();
    if (first == nullptr) return false;
    asio::io_context& its_context = first->thread()->context;
    auto end = [this, first = std::move(first), done = std::move(done)] {
      first->CloseIfFirst();
      asio::post(threads_[0]->context, done);
    };
    // A read that begins now may take its bytes at once, and tells of them in the next round only.
    asio::post(its_context, [&its_context, end = std::move(end)] { asio::post(its_context, end); });
    return true;
  }

  // Takes accepted_ as one of the thread's connections, once there is room, and accepts the next one.
  void AdmitTo(Thread& thread) {
    if (shared_->draining) return accepted_.reset();
    if (shared_->limit.full()) {
      shared_->refused->Add();
      if (EndOne([this, &thread] { AdmitTo(thread); })) return;
      TurnAway(std::move(*accepted_));
    } else {
      try {
        Admit(thread, std::move(*accepted_));
      } catch (...) {
        LogException();
      }
    }
    accepted_.reset();
    Accept();
  }

  void TurnAway(tcp::socket socket) const {
    if (shared_->options.tls != nullptr) return;  // a handshake would take too long here
    const Reply reply = shared_->handler->Error(503, "too many connections");
    std::string bytes;
    AppendHead(reply, false, &bytes);
    error_code ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(bytes + reply.body), ignored);  // the buffer of a new socket takes it
  }

  void Admit(Thread& thread, tcp::socket socket) {
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    const auto peer = socket.remote_endpoint(ignored).address();
    const auto connection = std::make_shared<Connection>(shared_, threads_[thread.index], std::move(socket));
    connection->TakePlace(HostNumber(peer));
    asio::post(thread.context, [connection, &thread] {
      thread.connections.push_back(connection);
      connection->Begin();
    });
  }

  // Has a look at each connection, and forgets those that have ended.
  void Sweep(Thread& thread, asio::steady_timer& timer) {
    timer.expires_after(kSweep);
    timer.async_wait([this, &thread, &timer](const error_code& error) {
      if (error) return;
      const Time now = shared_->clock.Now();
      thread.turned.store(now, std::memory_order_relaxed);
      thread.connections.remove_if([&](const std::weak_ptr<Connection>& weak) {
        const auto connection = weak.lock();
        if (connection != nullptr) connection->Look(now);
        return connection == nullptr;
      });
      Sweep(thread, timer);
      if (&thread == threads_[0].get()) Accept();
    });
  }

  const std::shared_ptr<Shared> shared_;
  std::vector<std::shared_ptr<Thread>> threads_;
  std::optional<tcp::acceptor> acceptor_;
  bool accepting_ = false;               // on the first thread
  std::optional<tcp::socket> accepted_;  // waits for room
  std::list<asio::steady_timer> sweeps_;
  size_t next_ = 0;
  std::string address_;
  std::vector<std::thread> runners_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::Start(Options options, Handler& handler,
                                              metrics::Registry& registry) {
  auto shared = std::make_shared<Shared>(std::move(options));
  shared->handler = shared->reading.handler = &handler;
  const std::string& name = shared->options.metrics;
  shared->requests = &registry.counter(name + "_requests_total", "Requests that were read.");
  shared->refused = &registry.counter(name + "_connections_refused_total",
                                      "Connections beyond the limit: they, or others for them, have ended.");
  shared->open = &registry.gauge(name + "_connections", "Open connections.");
  auto server = std::make_unique<AsioServer>(std::move(shared));
  LEAT_RETURN_IF_ERROR(server->Listen());
  handler.OnListening(server->address());
  server->Run();
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace leat::net::http
