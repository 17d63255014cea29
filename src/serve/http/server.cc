#include "serve/http/server.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstring>
#include <list>
#include <thread>
#include <utility>
#include <vector>

#include "net/address.h"
#include "serve/http/tls_files.h"
#include "serve/json_text.h"

namespace leat::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr size_t kMaxHead = 16 << 10;
constexpr size_t kReadBytes = 16 << 10;
constexpr auto kSweep = std::chrono::milliseconds(250);
// After the process or the system has run out of descriptors or memory.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);
constexpr Duration kLinger = std::chrono::seconds(1);  // for a peer that has its last reply
constexpr size_t kJoined = 16 << 10;  // a body up to this size is sent in one piece with its head

std::string_view View(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

// Without the query.
std::string_view PathOf(boost::beast::string_view target) {
  const std::string_view text = View(target);
  return text.substr(0, text.find('?'));
}

void AppendHead(const HttpReply& reply, bool keep, std::string* out) {
  *out += "HTTP/1.1 ";
  AppendNumber(static_cast<size_t>(reply.status), out);
  *out += ' ';
  *out += View(http::obsolete_reason(static_cast<http::status>(reply.status)));
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

class Connection;

// What the connections of one thread share.
struct Thread {
  explicit Thread(size_t its_index) : index(its_index) {}
  const size_t index;
  asio::io_context context{1};
  std::list<std::weak_ptr<Connection>> connections;  // the thread's own
  bool round_end_posted = false;
};

struct Shared {
  HttpServer::Options options;
  HttpHandler* handler = nullptr;
  metrics::Counter* requests = nullptr;
  metrics::Counter* refused = nullptr;
  metrics::Gauge* open = nullptr;
  std::atomic<size_t> connections{0};
  std::atomic<bool> draining{false};
  MonotonicClock clock;
};

// One connection, on its thread.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<Shared> shared, std::shared_ptr<Thread> thread)
      : shared_(std::move(shared)), thread_(std::move(thread)) {
    shared_->open->Set(static_cast<double>(++shared_->connections));
  }
  virtual ~Connection() { shared_->open->Set(static_cast<double>(--shared_->connections)); }

  virtual void Begin() = 0;
  virtual void Close() = 0;  // at once
  Time deadline() const { return deadline_; }
  // Ends an idle connection; a busy one ends with its reply.
  void Drain() {
    if (idle_) Close();
  }
  void Send(HttpReply reply) {
    const bool keep = keep_ && !shared_->draining && reply.status != 413;
    out_.clear();
    AppendHead(reply, keep, &out_);
    body_.clear();
    if (!head_only_) {
      if (reply.body.size() <= kJoined) {
        out_ += reply.body;
      } else {
        body_ = std::move(reply.body);
      }
    }
    keep_ = keep;
    SetDeadline(shared_->options.write_timeout);
    Write();
  }

  const std::shared_ptr<Thread>& thread() const { return thread_; }

 protected:
  virtual void Read(asio::mutable_buffer into) = 0;  // then OnRead
  virtual void Write() = 0;                          // out_, body_; then OnWritten
  virtual void WriteContinue() = 0;                  // then Parse
  virtual void CloseInOrder() = 0;

  void SetDeadline(Duration from_now) { deadline_ = shared_->clock.Now() + from_now; }
  void Next() {
    parser_.emplace();
    parser_->eager(true);
    parser_->header_limit(kMaxHead);
    parser_->body_limit(shared_->options.max_body);
    continued_ = admitted_ = false;
    idle_ = buffer_.size() == 0;
    SetDeadline(idle_ ? shared_->options.idle_timeout : shared_->options.request_timeout);
    idle_ ? ReadMore() : Parse();
  }
  void ReadMore() { Read(buffer_.prepare(kReadBytes)); }
  void OnRead(const error_code& error, size_t bytes) {
    if (error) return Close();
    if (idle_) SetDeadline(shared_->options.request_timeout);
    idle_ = false;
    buffer_.commit(bytes);
    Parse();
  }
  void Parse() {
    error_code error;
    while (!parser_->is_done() && buffer_.size() > 0) {
      const size_t used = parser_->put(buffer_.data(), error);
      buffer_.consume(used);
      if (error == http::error::need_more) {
        error = {};
        break;
      }
      if (error) return Refuse(error);
      if (used == 0) break;
    }
    if (parser_->is_header_done() && !std::exchange(admitted_, true)) {
      const auto& head = parser_->get();
      auto refusal = shared_->handler->Refuse(PathOf(head.target()), View(head[http::field::authorization]));
      if (refusal) {
        keep_ = false;
        head_only_ = head.method() == http::verb::head;
        return Send(std::move(*refusal));
      }
    }
    if (parser_->is_done()) return Dispatch();
    if (parser_->is_header_done() && !continued_ &&
        boost::beast::iequals(parser_->get()[http::field::expect], "100-continue")) {
      continued_ = true;
      return WriteContinue();
    }
    ReadMore();
  }
  void OnWritten(const error_code& error) {
    if (error) return Close();
    if (!keep_) return CloseInOrder();
    Next();
  }

 private:
  // Keeps the connection, which nothing else does while its request waits.
  class Exchange final : public HttpExchange {
   public:
    explicit Exchange(std::shared_ptr<Connection> connection)
        : thread_(connection->thread()), connection_(std::move(connection)) {}
    // A connection ends on its thread.
    ~Exchange() override {
      if (connection_ != nullptr) asio::post(thread_->context, [connection = std::move(connection_)] {});
    }
    void Reply(HttpReply reply) override { std::exchange(connection_, nullptr)->Send(std::move(reply)); }
    void Post(std::function<void()> work) override { asio::post(thread_->context, std::move(work)); }

   private:
    const std::shared_ptr<Thread> thread_;
    std::shared_ptr<Connection> connection_;
  };

  void Refuse(const error_code& error) {
    keep_ = head_only_ = false;
    if (error == http::error::body_limit) {
      return Send(
          ErrorReply(413, "the body is larger than " + std::to_string(shared_->options.max_body) + " bytes"));
    }
    if (error == http::error::header_limit) return Send(ErrorReply(431, "the head is too long"));
    Send(ErrorReply(400, "not a request of HTTP/1.1: " + error.message()));
  }

  void Dispatch() {
    auto message = parser_->release();
    keep_ = message.keep_alive();
    head_only_ = message.method() == http::verb::head;
    shared_->requests->Add();
    HttpRequest request{.method = head_only_ ? "GET" : std::string(View(message.method_string())),
                        .path = std::string(PathOf(message.target())),
                        .content_type = std::string(View(message[http::field::content_type])),
                        .content_encoding = std::string(View(message[http::field::content_encoding])),
                        .json_bytes = std::string(View(message["Inference-Header-Content-Length"])),
                        .body = std::move(message.body())};
    deadline_ = Time::max();  // the handler replies in time
    EndRoundLater();
    shared_->handler->Handle(thread_->index, std::move(request),
                             std::make_shared<Exchange>(shared_from_this()));
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
  boost::beast::flat_buffer buffer_{kMaxHead + kReadBytes};
  std::optional<http::request_parser<http::string_body>> parser_;
  Time deadline_ = Time::max();
  bool idle_ = true;
  bool keep_ = false;       // the connection stays open after the reply
  bool head_only_ = false;  // the reply has no body
  bool admitted_ = false;   // by the head of the request
  bool continued_ = false;
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
  void Close() override {
    error_code ignored;
    stream_.lowest_layer().close(ignored);
  }

 private:
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
      error ? self->Close() : self->Parse();
    });
  }
  // A socket that is closed with unread bytes resets the connection, and the peer may lose the reply. So what
  // it still sends is read, for a while.
  void CloseInOrder() override {
    error_code ignored;
    stream_.lowest_layer().shutdown(tcp::socket::shutdown_send, ignored);
    SetDeadline(kLinger);
    out_.resize(kReadBytes);
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
    pause_.emplace(threads_[0]->context);
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
    if (!error) acceptor_->listen(1024, error);
    if (error) return {Code::kUnavailable, where + ": " + error.message()};
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
        context->run();
      });
    }
  }

  ~Server() override {
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
    Thread& thread = *threads_[next_++ % threads_.size()];
    acceptor_->async_accept(thread.context, [this, &thread](const error_code& error, tcp::socket socket) {
      if (error == asio::error::operation_aborted || shared_->draining) return;
      if (error == asio::error::no_descriptors || error == asio::error::no_buffer_space ||
          error == asio::error::no_memory || error == boost::system::errc::too_many_files_open_in_system) {
        pause_->expires_after(kAcceptPause);
        return pause_->async_wait([this](const error_code& stopped) {
          if (!stopped) Accept();
        });
      }
      if (!error) Admit(thread, std::move(socket));
      Accept();
    });
  }

  void Admit(Thread& thread, tcp::socket socket) {
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    if (shared_->connections >= shared_->options.max_connections) {
      shared_->refused->Add();
      if (tls_ != nullptr) return;  // a handshake would take too long here
      const HttpReply reply = ErrorReply(503, "too many connections");
      std::string bytes;
      AppendHead(reply, false, &bytes);
      socket.non_blocking(true, ignored);
      socket.write_some(asio::buffer(bytes + reply.body), ignored);  // the buffer of a new socket takes it
      return;
    }
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
      thread.connections.remove_if([&](const std::weak_ptr<Connection>& weak) {
        const auto connection = weak.lock();
        if (connection != nullptr && now > connection->deadline()) connection->Close();
        return connection == nullptr;
      });
      Sweep(thread, timer);
    });
  }

  const std::shared_ptr<Shared> shared_;
  const std::unique_ptr<TlsFiles> tls_;  // null: no TLS
  std::vector<std::shared_ptr<Thread>> threads_;
  std::optional<tcp::acceptor> acceptor_;
  std::optional<asio::steady_timer> pause_;
  std::list<asio::steady_timer> sweeps_;
  size_t next_ = 0;
  std::string address_;
  std::vector<std::thread> runners_;
};

}  // namespace

HttpReply ErrorReply(int status, std::string_view why) {
  HttpReply reply{.status = status, .body = "{\"error\":"};
  AppendString(why, &reply.body);
  reply.body += '}';
  return reply;
}

Result<std::unique_ptr<HttpServer>> HttpServer::Start(Options options, HttpHandler& handler,
                                                      metrics::Registry& registry) {
  std::unique_ptr<TlsFiles> tls;
  if (!options.certificate.empty()) {
    LEAT_ASSIGN_OR_RETURN(tls, TlsFiles::Load(options.certificate, options.key));
  }
  auto shared = std::make_shared<Shared>();
  shared->options = std::move(options);
  shared->handler = &handler;
  shared->requests = &registry.counter("leat_serve_requests_total", "Requests that were read.");
  shared->refused =
      &registry.counter("leat_serve_connections_refused_total", "Connections beyond the limit.");
  shared->open = &registry.gauge("leat_serve_connections", "Open connections.");
  auto server = std::make_unique<Server>(std::move(shared), std::move(tls));
  LEAT_RETURN_IF_ERROR(server->Listen());
  server->Run();
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace leat::serve
