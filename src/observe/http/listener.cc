#include "observe/http/listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <list>
#include <system_error>
#include <thread>
#include <utility>

#include "net/address.h"
#include "net/same_host/descriptor.h"
#include "observe/http/channel.h"
#include "observe/http/exchange.h"
#include "observe/http/request_head.h"

namespace leat::observe {
namespace {

constexpr int kBacklog = 64;
constexpr size_t kReadBytes = 4 << 10;
// Pause after the process or the system has run out of descriptors or memory.
constexpr int kAcceptPauseMs = 100;

// A name of a host without the brackets of an address.
std::vector<std::string> HostsOf(const HttpListener::Options& options) {
  std::vector<std::string> hosts = options.hosts;
  if (const auto own = net::ParseAddress(options.address); own.ok()) hosts.push_back(own->host);
  if (const std::string name = net::HostName(); !name.empty()) {
    hosts.push_back(name);
    hosts.push_back(name.substr(0, name.find('.')));
  }
  return hosts;
}

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
                         .hosts = HostsOf(options_),
                         .tls = options_.tls,
                         .port = net::ParseAddress(address_).value().port}),
                 options_.max_streams),
        wake_(std::move(wake)),
        thread_([this] { Accept(); }) {}

  ~Listener() override {
    service_.stopping = true;
    const uint64_t one = 1;
    (void)!write(wake_.get(), &one, sizeof(one));
    thread_.join();
    for (Connection& connection : connections_) {
      connection.channel.Shut();
      connection.thread.join();
    }
  }

  const std::string& address() const override { return address_; }

 private:
  struct Connection {
    explicit Connection(net::Descriptor socket) : channel(std::move(socket)) {}
    HttpChannel channel;
    // Since when it has had no authorised request; max(): it is served one now. A peer that may not look can
    // take its time to read a response, so being answered does not count.
    std::atomic<Time> idle_since{Time::max()};
    std::atomic<bool> over{false};
    std::thread thread;
  };

  void Accept() {
    while (!service_.stopping) {
      std::array<pollfd, 2> ready{pollfd{.fd = socket_.get(), .events = POLLIN, .revents = 0},
                                  pollfd{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
      if (poll(ready.data(), ready.size(), -1) <= 0 || ready[0].revents == 0) continue;
      net::Descriptor socket(accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      const int error = errno;
      DropEnded();
      if (socket.ok()) {
        Admit(std::move(socket));
      } else if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
        poll(&ready[1], 1, kAcceptPauseMs);
      }  // otherwise the peer had closed before it was accepted
    }
  }

  void DropEnded() {
    for (auto at = connections_.begin(); at != connections_.end();) {
      if (!at->over) {
        ++at;
        continue;
      }
      at->thread.join();
      at = connections_.erase(at);
    }
  }

  // Makes room for another connection at the expense of one that serves nobody who may look. So idle
  // connections, and peers without the token, keep nobody out.
  bool DropIdle() {
    const auto oldest = std::ranges::min_element(
        connections_, {}, [](const Connection& each) { return each.idle_since.load(); });
    if (oldest == connections_.end() || oldest->idle_since.load() == Time::max()) return false;
    oldest->channel.Shut();
    oldest->thread.join();
    connections_.erase(oldest);
    return true;
  }

  void Admit(net::Descriptor socket) {
    if (connections_.size() >= options_.max_connections && !DropIdle()) {
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
    Connection& connection = connections_.emplace_back(std::move(socket));
    try {
      connection.thread = std::thread([this, &connection] {
        Serve(connection);
        connection.channel.Shut();
        connection.over = true;
      });
    } catch (const std::system_error&) {  // the system has no more threads
      connections_.pop_back();
    }
  }

  void Serve(Connection& connection) {
    HttpChannel& channel = connection.channel;
    const HttpSend send = [this, &channel](std::string_view bytes) {
      return channel.Write(bytes, clock_.Now() + options_.write_timeout);
    };
    connection.idle_since = clock_.Now();
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
      const Result<RequestHead> head = ParseHead(std::string_view(input).substr(0, *size));
      if (!head.ok()) return (void)SendError(400, head.status().message(), send);
      input.erase(0, *size);
      const bool authorised = service_.access.Authorised(*head, roles);
      if (authorised) connection.idle_since = Time::max();
      if (!AnswerRequest(service_, *head, authorised, send)) return;
      connection.idle_since = clock_.Now();
      patience = options_.idle_timeout;
    }
  }

  // Reads until `input` begins with a whole head, and returns its size. kResourceExhausted: it is too long.
  // Other errors: the connection has ended, or its deadline has passed.
  Result<size_t> ReadHead(HttpChannel& channel, Duration patience, std::string* input) {
    Time deadline = clock_.Now() + (input->empty() ? patience : options_.request_timeout);
    while (true) {
      if (const auto size = HeadBytes(*input)) return *size;
      if (input->size() >= RequestHead::kMaxBytes) return Status(Code::kResourceExhausted, "too long");
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
  std::list<Connection> connections_;  // the accepting thread's
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
    return Status(Code::kUnavailable, where + ": " + std::strerror(errno));
  }
  return std::unique_ptr<HttpListener>(std::make_unique<Listener>(
      std::move(options), std::move(routes), std::move(socket), at.ToString(), std::move(wake)));
}

}  // namespace leat::observe
