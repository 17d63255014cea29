#include "serve/http/server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cstring>
#include <exception>
#include <functional>
#include <list>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/exit_status.h"
#include "base/log.h"
#include "net/address.h"
#include "net/http/connection_limit.h"
#include "serve/http/request_reader.h"
#include "serve/http/tls_files.h"
#include "serve/json_text.h"

namespace leat::serve {
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

std::string_view ReasonOf(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 421:
      return "Misdirected Request";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "";
  }
}

void AppendHead(const HttpReply& reply, bool keep, std::string* out) {
  *out += "HTTP/1.1 ";
  AppendNumber(static_cast<size_t>(reply.status), out);
  *out += ' ';
  *out += ReasonOf(reply.status);
  *out += "\r\nContent-Type: ";
  *out += reply.type;
  *out += "\r\nContent-Length: ";
  AppendNumber(reply.body.size(), out);
  if (reply.json_bytes) {
    *out += "\r\nInference-Header-Content-Length: ";
    AppendNumber(*reply.json_bytes, out);
  }
  if (!reply.allow.empty()) {
    *out += "\r\nAllow: ";
    *out += reply.allow;
  }
  if (reply.status == 401) *out += "\r\nWWW-Authenticate: Bearer";
  if (reply.status == 503) *out += "\r\nRetry-After: 1";
  if (!keep) *out += "\r\nConnection: close";
  *out += "\r\n\r\n";
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

// What the connections of one thread share.
struct Thread {
  explicit Thread(size_t its_index) : index(its_index) {}
  const size_t index;
  asio::io_context context{1};
  std::list<std::weak_ptr<Connection>> connections;  // the thread's own
  bool round_end_posted = false;
  std::atomic<Time> turned{MonotonicClock().Now()};  // for HttpServer::turned
};

struct Shared {
  explicit Shared(HttpServer::Options its_options)
      : options(std::move(its_options)), limit(options.max_connections) {
    bodies.most = std::max(bodies.most, 4 * options.max_body);
    reading.max_body = options.max_body;
    reading.bodies = &bodies;
    if (options.own_names) reading.own_names = &*options.own_names;
  }
  const HttpServer::Options options;
  RequestReader::Options reading;
  HttpHandler* handler = nullptr;
  metrics::Counter* requests = nullptr;
  metrics::Counter* refused = nullptr;
  metrics::Gauge* open = nullptr;
  BodyMemory bodies;
  net::ConnectionLimit<Connection> limit;
  std::atomic<size_t> connections{0};
  std::atomic<bool> draining{false};
  MonotonicClock clock;
};

// One connection, on its thread.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<Shared> shared, std::shared_ptr<Thread> thread)
      : shared_(std::move(shared)), thread_(std::move(thread)), reader_(shared_->reading) {
    shared_->open->Set(static_cast<double>(++shared_->connections));
  }
  virtual ~Connection() { shared_->open->Set(static_cast<double>(--shared_->connections)); }

  // `host`: of the peer, as HostNumber.
  void TakePlace(uint64_t host) { place_ = shared_->limit.Add(shared_from_this(), host); }
  virtual void Begin() = 0;
  // At once.
  void Close() {
    CloseSocket();
    place_.reset();
  }
  // Makes room for another connection, unless the peer has asked since this one was chosen.
  void CloseIfFirst() {
    if (place_ == nullptr || (idle_ && HasUnread())) return;
    if (shared_->limit.FirstToEnd().get() == this) Close();
  }
  Time deadline() const { return deadline_; }
  // Ends an idle connection; a busy one ends with its reply.
  void Drain() {
    if (idle_) Close();
  }
  void Send(HttpReply reply) {
    keep_ = reader_.keep_alive() && !shared_->draining && reply.status != 413;
    out_.clear();
    AppendHead(reply, keep_, &out_);
    body_.clear();
    if (!reader_.head_only()) {
      if (reply.body.size() <= kJoined) {
        out_ += reply.body;
      } else {
        body_ = std::move(reply.body);
      }
    }
    if (place_ != nullptr && place_->serving()) place_->BeginWaiting();
    SetDeadline(shared_->options.write_timeout);
    Write();
  }

  const std::shared_ptr<Thread>& thread() const { return thread_; }

 protected:
  virtual void Read(asio::mutable_buffer into) = 0;  // then OnRead
  virtual void Write() = 0;                          // out_, body_; then OnWritten
  virtual void WriteContinue() = 0;                  // then GoOn
  virtual bool HasUnread() = 0;
  virtual void CloseSocket() = 0;
  virtual void CloseInOrder() = 0;

  void SetDeadline(Duration from_now) { deadline_ = shared_->clock.Now() + from_now; }
  void Next() {
    idle_ = reader_.idle();
    const bool patient = idle_ && place_ != nullptr && place_->known();
    SetDeadline(patient ? shared_->options.idle_timeout : shared_->options.request_timeout);
    GoOn();
  }
  void OnRead(const error_code& error, size_t bytes) {
    if (error) return Close();
    if (idle_) SetDeadline(shared_->options.request_timeout);
    idle_ = false;
    reader_.Commit(bytes);
    GoOn();
  }
  void GoOn() {
    const RequestReader::Event event = reader_.Next();
    if (event == RequestReader::Event::kRefused) return Send(reader_.TakeRefusal());
    if (place_ != nullptr && !place_->known() && reader_.peer() == Admission::Peer::kKnown)
      place_->BeginWaiting();
    if (event == RequestReader::Event::kRequest) return Dispatch();
    if (event == RequestReader::Event::kContinue) return WriteContinue();
    const std::span<char> space = reader_.Space();
    Read(asio::buffer(space.data(), space.size()));
  }
  void OnWritten(const error_code& error) {
    if (error) return Close();
    if (!keep_) return CloseInOrder();
    Next();
  }

 private:
  // Keeps the connection, which nothing else does while its request waits.
  class Exchange final : public HttpExchange, public std::enable_shared_from_this<Exchange> {
   public:
    explicit Exchange(std::shared_ptr<Connection> connection)
        : thread_(connection->thread()), connection_(std::move(connection)) {}
    // A connection ends on its thread.
    ~Exchange() override {
      if (connection_ != nullptr) asio::post(thread_->context, [connection = std::move(connection_)] {});
    }
    void Reply(HttpReply reply) override {
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
        Reply(ErrorReply(500, "an error in this program; its log has the reason"));
      }
    }

   private:
    const std::shared_ptr<Thread> thread_;
    std::shared_ptr<Connection> connection_;
  };

  void Dispatch() {
    shared_->requests->Add();
    if (place_ != nullptr && reader_.peer() != Admission::Peer::kUnknown) place_->BeginServing();
    deadline_ = Time::max();  // the handler replies in time
    EndRoundLater();
    const auto exchange = std::make_shared<Exchange>(shared_from_this());
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

 protected:
  const std::shared_ptr<Shared> shared_;
  const std::shared_ptr<Thread> thread_;
  std::string out_, body_;

 private:
  std::unique_ptr<net::ConnectionLimit<Connection>::Place> place_;  // null: the connection has ended
  RequestReader reader_;
  Time deadline_ = Time::max();
  bool idle_ = true;
  bool keep_ = false;  // the connection stays open after the reply
};

// `Stream`: tcp::socket, or TLS over it.
template <class Stream>
class ConnectionOver final : public Connection {
 public:
  template <class... Args>
  ConnectionOver(std::shared_ptr<Shared> shared, std::shared_ptr<Thread> thread,
                 std::shared_ptr<asio::ssl::context> tls, Args&&... args)
      : Connection(std::move(shared), std::move(thread)),
        tls_(std::move(tls)),
        stream_(std::forward<Args>(args)...) {}

  void Begin() override {
    if constexpr (std::is_same_v<Stream, tcp::socket>) {
      Next();
    } else {
      SetDeadline(shared_->options.request_timeout);
      stream_.async_handshake(asio::ssl::stream_base::server, [self = Self()](const error_code& error) {
        error ? self->Close() : self->Next();
      });
    }
  }

 private:
  bool HasUnread() override {
    error_code ignored;
    return stream_.lowest_layer().available(ignored) > 0;
  }
  void CloseSocket() override {
    error_code ignored;
    stream_.lowest_layer().close(ignored);
  }

  std::shared_ptr<ConnectionOver> Self() {
    return std::static_pointer_cast<ConnectionOver>(this->shared_from_this());
  }
  void Read(asio::mutable_buffer into) override {
    stream_.async_read_some(
        into, [self = Self()](const error_code& error, size_t bytes) { self->OnRead(error, bytes); });
  }
  void Write() override {
    const std::array<asio::const_buffer, 2> pieces{asio::buffer(out_), asio::buffer(body_)};
    asio::async_write(stream_, pieces,
                      [self = Self()](const error_code& error, size_t) { self->OnWritten(error); });
  }
  void WriteContinue() override {
    out_ = "HTTP/1.1 100 Continue\r\n\r\n";
    asio::async_write(stream_, asio::buffer(out_), [self = Self()](const error_code& error, size_t) {
      error ? self->Close() : self->GoOn();
    });
  }
  // A socket that is closed with unread bytes resets the connection, and the peer may lose the reply. So what
  // it still sends is read, for a while.
  void CloseInOrder() override {
    error_code ignored;
    stream_.lowest_layer().shutdown(tcp::socket::shutdown_send, ignored);
    SetDeadline(kLinger);
    out_.resize(kDiscardBytes);
    Discard();
  }
  void Discard() {
    Socket().async_read_some(asio::buffer(out_), [self = Self()](const error_code& error, size_t) {
      error ? self->Close() : self->Discard();
    });
  }
  tcp::socket& Socket() {
    if constexpr (std::is_same_v<Stream, tcp::socket>) {
      return stream_;
    } else {
      return stream_.next_layer();
    }
  }

  const std::shared_ptr<asio::ssl::context> tls_;  // null: none
  Stream stream_;
};

class Server final : public HttpServer {
 public:
  Server(std::shared_ptr<Shared> shared, std::unique_ptr<TlsFiles> tls)
      : shared_(std::move(shared)), tls_(std::move(tls)) {
    for (size_t i = 0; i < std::max<size_t>(1, shared_->options.threads); ++i)
      threads_.push_back(std::make_shared<Thread>(i));
    acceptor_.emplace(threads_[0]->context);
  }

  Status Listen() {
    const std::string where = "cannot listen on " + shared_->options.address;
    const auto resolved = net::Resolve(shared_->options.address);
    if (!resolved.ok()) return resolved.status().With(where);
    const auto& at = resolved->front();
    tcp::endpoint endpoint;
    endpoint.resize(at.size);
    std::memcpy(endpoint.data(), at.get(), at.size);
    error_code error;
    acceptor_->open(endpoint.protocol(), error);
    if (!error) acceptor_->set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_->bind(endpoint, error);
    if (!error) acceptor_->set_option(DeferAccept(kDeferSeconds), error);
    if (!error) acceptor_->listen(SOMAXCONN, error);
    if (error) return {CodeOfErrno(error.value()), where + ": " + error.message()};
    const auto own = acceptor_->local_endpoint();
    net::SocketAddress address;
    std::memcpy(address.get(), own.data(), own.size());
    address.size = static_cast<socklen_t>(own.size());
    address_ = address.ToString();
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

  ~Server() override {
    shared_->draining = true;
    for (const auto& thread : threads_) thread->context.stop();
    for (auto& runner : runners_) runner.join();
    error_code ignored;
    acceptor_->close(ignored);
    // A pending operation holds its connection, and that its thread: what is left ends here. The second time
    // is for connections that were about to begin.
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
    Thread& thread = *threads_[next_++ % threads_.size()];
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
    if (tls_ != nullptr) return;  // a handshake would take too long here
    const HttpReply reply = ErrorReply(503, "too many connections");
    std::string bytes;
    AppendHead(reply, false, &bytes);
    error_code ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(bytes + reply.body), ignored);  // the buffer of a new socket takes it
  }

  void Admit(Thread& thread, tcp::socket socket) {
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    const auto peer = socket.remote_endpoint(ignored);
    const auto& owner = threads_[thread.index];
    std::shared_ptr<Connection> connection;
    if (tls_ != nullptr) {
      using Tls = asio::ssl::stream<tcp::socket>;
      auto context = tls_->context(shared_->clock.Now());
      connection =
          std::make_shared<ConnectionOver<Tls>>(shared_, owner, context, std::move(socket), *context);
    } else {
      connection = std::make_shared<ConnectionOver<tcp::socket>>(shared_, owner, nullptr, std::move(socket));
    }
    connection->TakePlace(net::HostNumber(peer.data()));
    asio::post(thread.context, [connection, &thread] {
      thread.connections.push_back(connection);
      connection->Begin();
    });
  }

  // Ends connections whose deadline has passed, and forgets those that have ended.
  void Sweep(Thread& thread, asio::steady_timer& timer) {
    timer.expires_after(kSweep);
    timer.async_wait([this, &thread, &timer](const error_code& error) {
      if (error) return;
      const Time now = shared_->clock.Now();
      thread.turned.store(now, std::memory_order_relaxed);
      thread.connections.remove_if([&](const std::weak_ptr<Connection>& weak) {
        const auto connection = weak.lock();
        if (connection != nullptr && now > connection->deadline()) connection->Close();
        return connection == nullptr;
      });
      Sweep(thread, timer);
      if (&thread == threads_[0].get()) Accept();
    });
  }

  const std::shared_ptr<Shared> shared_;
  const std::unique_ptr<TlsFiles> tls_;  // null: no TLS
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

Result<std::unique_ptr<HttpServer>> HttpServer::Start(Options options, HttpHandler& handler,
                                                      metrics::Registry& registry) {
  std::unique_ptr<TlsFiles> tls;
  if (!options.certificate.empty()) {
    LEAT_ASSIGN_OR_RETURN(tls, TlsFiles::Load(options.certificate, options.key));
  }
  auto shared = std::make_shared<Shared>(std::move(options));
  shared->handler = shared->reading.handler = &handler;
  shared->requests = &registry.counter("leat_serve_requests_total", "Requests that were read.");
  shared->refused = &registry.counter("leat_serve_connections_refused_total",
                                      "Connections beyond the limit: they, or others for them, have ended.");
  shared->open = &registry.gauge("leat_serve_connections", "Open connections.");
  auto server = std::make_unique<Server>(std::move(shared), std::move(tls));
  LEAT_RETURN_IF_ERROR(server->Listen());
  server->Run();
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace leat::serve
