#include "observe/http/listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <list>
#include <system_error>
#include <thread>
#include <utility>

#include "base/exit_status.h"
#include "base/log.h"
#include "net/address.h"
#include "net/http/connection_limit.h"
#include "net/http/request_head.h"
#include "net/same_host/descriptor.h"
#include "observe/http/channel.h"
#include "observe/http/exchange.h"
#include "threads/thread.h"

namespace leat::observe {
namespace {

constexpr int kBacklog = 64;
constexpr size_t kReadBytes = 4 << 10;
// Pause after the process or the system has run out of descriptors or memory.
constexpr int kAcceptPauseMs = 100;

class Listener final : public HttpListener {
 public:
  // `wake`: an eventfd.
  Listener(Options options, std::vector<HttpRoute> routes, net::Descriptor socket, std::string address,
           net::Descriptor wake)
      : options_(std::move(options)),
        socket_(std::move(socket)),
        address_(std::move(address)),
        service_(std::move(routes),
                 Access({.view_token = options_.view_token,
                         .address = options_.address,
                         .hosts = options_.hosts,
                         .tls = options_.tls,
                         .port = net::ParseAddress(address_).value().port}),
                 options_.max_streams),
        wake_(std::move(wake)),
        limit_(options_.max_connections),
        thread_(StartThread([this] { Accept(); })) {}

  ~Listener() override {
    service_.stopping = true;
    const uint64_t one = 1;
    (void)!write(wake_.get(), &one, sizeof(one));
    thread_.join();
    for (const auto& connection : connections_) {
      connection->channel.Shut();
      connection->thread.join();
    }
  }

  const std::string& address() const override { return address_; }

 private:
  struct Connection {
    explicit Connection(net::Descriptor socket) : channel(std::move(socket)) {}
    HttpChannel channel;
    // A peer without authorised requests can take its time to read a response: being answered makes it not
    // known.
    std::unique_ptr<net::ConnectionLimit<Connection>::Place> place;
    std::atomic<bool> over{false};
    std::thread thread;
  };

  void Accept() {
    while (!service_.stopping) {
      std::array<pollfd, 2> ready{pollfd{.fd = socket_.get(), .events = POLLIN, .revents = 0},
                                  pollfd{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
      if (poll(ready.data(), ready.size(), -1) <= 0 || ready[0].revents == 0) continue;
      net::SocketAddress peer;
      peer.size = sizeof(peer.storage);
      net::Descriptor socket(accept4(socket_.get(), peer.get(), &peer.size, SOCK_NONBLOCK | SOCK_CLOEXEC));
      const int error = errno;
      DropEnded();
      if (socket.ok()) {
        Admit(std::move(socket), net::HostNumber(peer.get()));
      } else if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
        poll(&ready[1], 1, kAcceptPauseMs);
      }  // otherwise the peer had closed before it was accepted
    }
  }

  void DropEnded() {
    for (auto at = connections_.begin(); at != connections_.end();) {
      if (!(*at)->over) {
        ++at;
        continue;
      }
      (*at)->thread.join();
      at = connections_.erase(at);
    }
  }

  bool MakeRoom() {
    const auto first = limit_.FirstToEnd();
    if (first == nullptr) return false;
    first->channel.Shut();
    first->thread.join();
    connections_.remove(first);
    return true;
  }

  // `host`: of the peer, as HostNumber.
  void Admit(net::Descriptor socket, uint64_t host) {
    if (limit_.full() && !MakeRoom()) {
      if (options_.tls != nullptr) return;  // a handshake would take too long here
      HttpChannel channel(std::move(socket));
      // The buffer of a new socket takes it.
      (void)SendError(503, "too many connections",
                      [&](std::string_view bytes) { return channel.Write(bytes, Time{0}); });
      return;
    }
    // A response is written in two pieces.
    const int yes = 1;
    setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    Connection& connection = *connections_.emplace_back(std::make_shared<Connection>(std::move(socket)));
    connection.place = limit_.Add(connections_.back(), host);
    try {
      connection.thread = StartThread([this, &connection] {
        try {
          Serve(connection);
        } catch (const std::exception& e) {  // memory is short: only this connection ends
          spdlog::error("http: {}", e.what());
        }
        connection.channel.Shut();
        connection.over = true;
      });
    } catch (const std::exception&) {  // the host has no more threads, or memory
      connections_.pop_back();
    }
  }

  void Serve(Connection& connection) {
    HttpChannel& channel = connection.channel;
    const HttpSend send = [this, &channel](std::string_view bytes) {
      return channel.Write(bytes, clock_.Now() + options_.write_timeout);
    };
    net::CertificateRoles roles;  // of the peer's certificate
    if (options_.tls != nullptr) {
      const Status begun = channel.BeginTls(*options_.tls, clock_.Now() + options_.request_timeout);
      if (begun.code() == Code::kInvalidArgument) (void)SendError(400, begun.message(), send);
      if (!begun.ok()) return;
      roles = channel.peer_roles();
    }
    std::string input;
    Duration patience = options_.request_timeout;  // for the first byte
    while (!service_.stopping) {
      const Result<size_t> size = ReadHead(channel, patience, &input);
      if (size.status().code() == Code::kResourceExhausted)
        (void)SendError(431, "the head is too long", send);
      if (!size.ok()) return;
      const Result<net::RequestHead> head = net::ParseHead(std::string_view(input).substr(0, *size));
      if (!head.ok()) return (void)SendError(400, head.status().message(), send);
      input.erase(0, *size);
      const bool authorised = service_.access.Authorised(*head, roles);
      if (authorised) connection.place->BeginServing();
      if (!AnswerRequest(service_, *head, authorised, send)) return;
      if (authorised) connection.place->BeginWaiting();
      patience = options_.idle_timeout;
    }
  }

  // Reads until `input` begins with a whole head, and returns its size. kResourceExhausted: it is too long.
  // Other errors: the connection has ended, or its deadline has passed.
  Result<size_t> ReadHead(HttpChannel& channel, Duration patience, std::string* input) {
    Time deadline = clock_.Now() + (input->empty() ? patience : options_.request_timeout);
    while (true) {
      if (const auto size = net::HeadBytes(*input)) return *size;
      if (input->size() >= net::RequestHead::kMaxBytes) return Status(Code::kResourceExhausted, "too long");
      std::array<char, kReadBytes> bytes;
      const bool first = input->empty();
      LEAT_ASSIGN_OR_RETURN(const size_t got, channel.Read(bytes, deadline));
      if (got == 0) return Status(Code::kUnavailable, "closed by the peer");
      input->append(bytes.data(), got);
      if (first) deadline = clock_.Now() + options_.request_timeout;
    }
  }

  const Options options_;
  const MonotonicClock clock_;
  const net::Descriptor socket_;
  const std::string address_;
  HttpService service_;
  const net::Descriptor wake_;
  net::ConnectionLimit<Connection> limit_;
  std::list<std::shared_ptr<Connection>> connections_;  // the accepting thread's
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<HttpListener>> HttpListener::Start(Options options, std::vector<HttpRoute> routes) {
  const std::string where = "cannot listen on " + options.address;
  const auto resolved = net::Resolve(options.address);
  if (!resolved.ok()) return resolved.status().With(where);
  net::SocketAddress at = resolved->front();
  net::Descriptor socket(::socket(at.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  net::Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const int yes = 1;
  if (!socket.ok() || !wake.ok() ||
      setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
      bind(socket.get(), at.get(), at.size) != 0 || listen(socket.get(), kBacklog) != 0 ||
      getsockname(socket.get(), at.get(), &at.size) != 0) {
    return Status(CodeOfErrno(errno), where + ": " + std::strerror(errno));
  }
  return std::unique_ptr<HttpListener>(std::make_unique<Listener>(
      std::move(options), std::move(routes), std::move(socket), at.ToString(), std::move(wake)));
}

}  // namespace leat::observe
