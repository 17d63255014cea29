#include "observe/http/exchange.h"

#include <httplib.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/log.h"

namespace leat::observe {
namespace {

// With each response. A page may load what its own listener serves, and nothing else; no other page may show
// or read it.
constexpr std::pair<const char*, const char*> kHeaders[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
     "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
};

// Between two looks whether a stream is to end.
constexpr Duration kStreamWait = std::chrono::milliseconds(200);
// In a stream of events without events, a comment shows whether the viewer is still there.
constexpr Duration kSilence = std::chrono::seconds(10);
constexpr std::string_view kComment = ":\n\n";

// The head that was parsed, as the library is to see it, and the way to the peer.
class HeadStream final : public httplib::Stream {
 public:
  HeadStream(std::string head, const HttpSend& send) : head_(std::move(head)), send_(send) {}

  bool sent() const { return sent_; }  // everything that was to be sent

  bool is_readable() const override { return true; }
  bool is_writable() const override { return sent_; }
  ssize_t read(char* to, size_t size) override {
    const size_t taken = std::min(size, head_.size() - read_);
    std::memcpy(to, head_.data() + read_, taken);
    read_ += taken;
    return static_cast<ssize_t>(taken);
  }
  ssize_t write(const char* from, size_t size) override {
    sent_ = sent_ && send_({from, size}).ok();
    return sent_ ? static_cast<ssize_t>(size) : -1;
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return 0; }

 private:
  const std::string head_;
  size_t read_ = 0;
  const HttpSend& send_;
  bool sent_ = true;
};

// The library's server, for one request.
class Exchange final : public httplib::Server {
 public:
  Exchange(HttpService& service, const net::RequestHead& head, bool authorised)
      : service_(service), head_(head), authorised_(authorised) {
    svr_sock_ = 0;  // it would take itself for one that shuts down
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      Answer(request, response);
      return HandlerResponse::Handled;
    });
    set_post_routing_handler([this](const httplib::Request&, httplib::Response& response) {
      response.headers.erase("Keep-Alive");
      if (!keep_alive_) response.headers.erase("Connection");
      if (!keep_alive_) response.set_header("Connection", "close");
      for (const auto& [name, value] : kHeaders) response.set_header(name, value);
    });
    set_exception_handler([](const httplib::Request&, httplib::Response& response, std::exception_ptr error) {
      Log(error);
      Say(500, "an error in this program; its log has the reason", response);
    });
  }
  ~Exchange() override {
    if (streams_) --service_.streams;
  }

  bool Run(const HttpSend& send) {
    // Of the headers, the library needs to know only this one.
    HeadStream stream(head_.method + " " + head_.target + " HTTP/1.1\r\n" +
                          (head_.accepts_gzip() ? "Accept-Encoding: gzip\r\n\r\n" : "\r\n"),
                      send);
    bool closed = false;
    const bool answered = process_request(stream, false, closed, nullptr);
    return answered && stream.sent() && keep_alive_;
  }

 private:
  static void Log(const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& what) {
      spdlog::error("http: {}", what.what());
    } catch (...) {
      spdlog::error("http: an unknown exception");
    }
  }

  static void Say(int status, std::string_view what, httplib::Response& response) {
    response.status = status;
    response.set_content(std::string(what) + "\n", "text/plain; charset=utf-8");
  }

  void Answer(const httplib::Request& request, httplib::Response& response) {
    keep_alive_ = head_.keep_alive();
    response.set_header("Cache-Control", "no-store");
    if (head_.has_body()) {
      keep_alive_ = false;
      return Say(413, "requests have no body here", response);
    }
    if (const auto refusal = service_.access.Check(head_))
      return Say(refusal->status, refusal->why, response);
    const HttpRoute* route = Find(request, response);
    if (route == nullptr) return;
    if (route->access == HttpRoute::Access::kViewers && !authorised_) {
      response.set_header("WWW-Authenticate", "Bearer realm=\"leat\"");
      return Say(
          401,
          "this needs the view token, as 'Authorization: Bearer TOKEN' (leat view-token shows it), or a "
          "certificate for the role observer",
          response);
    }
    const HttpRequest asked{.path = request.path,
                            .query = {request.params.begin(), request.params.end()},
                            .authorised = authorised_};
    Fill(route->handler(asked), response);
  }

  // Null: there is none, and the response says so.
  const HttpRoute* Find(const httplib::Request& request, httplib::Response& response) const {
    const std::string method = request.method == "HEAD" ? "GET" : request.method;
    std::string allowed;
    for (const HttpRoute& route : service_.routes) {
      if (route.path != request.path) continue;
      if (route.method == method) return &route;
      allowed += (allowed.empty() ? "" : ", ") + (route.method == "GET" ? "GET, HEAD" : route.method);
    }
    if (allowed.empty()) {
      Say(404, "there is nothing at this path", response);
    } else {
      response.set_header("Allow", allowed);
      Say(405, "the method must be one of " + allowed, response);
    }
    return nullptr;
  }

  void Fill(HttpResponse answer, httplib::Response& response) {
    if (answer.grant_cookie && authorised_) response.set_header("Set-Cookie", service_.access.SetCookie());
    response.status = answer.status;
    if (answer.stream == nullptr) return response.set_content(answer.body, answer.type);
    streams_ = true;
    if (++service_.streams > service_.max_streams)
      return Say(503, "there are as many viewers as there may be; close another page", response);
    response.set_header("X-Accel-Buffering", "no");  // a proxy between would keep events back
    const bool comments = answer.type == kEventStream;
    response.set_chunked_content_provider(
        answer.type, [this, comments, next = std::move(answer.stream), last = clock_.Now()](
                         size_t, httplib::DataSink& sink) mutable {
          // The library catches only what handlers throw. An exception from here would end the process.
          try {
            return SendPiece(next, comments, &last, sink);
          } catch (...) {
            Log(std::current_exception());
            return false;
          }
        });
  }

  // False: the connection ends. `last`: when something was sent.
  bool SendPiece(const HttpStream& next, bool comments, Time* last, httplib::DataSink& sink) const {
    if (service_.stopping) return false;
    const std::optional<std::string> piece = next(kStreamWait);
    if (!piece) {
      sink.done();
      return true;
    }
    const Time now = clock_.Now();
    const bool silent = piece->empty() && comments && now - *last > kSilence;
    const std::string_view bytes = silent ? kComment : std::string_view(*piece);
    if (bytes.empty()) return true;
    *last = now;
    return sink.write(bytes.data(), bytes.size());
  }

  HttpService& service_;
  const net::RequestHead& head_;
  const bool authorised_;
  const MonotonicClock clock_;
  bool keep_alive_ = false;
  bool streams_ = false;  // it counts as one that sends a stream
};

}  // namespace

bool AnswerRequest(HttpService& service, const net::RequestHead& head, bool authorised,
                   const HttpSend& send) {
  return Exchange(service, head, authorised).Run(send);
}

Status SendError(int status, std::string_view why, const HttpSend& send) {
  std::string text = "HTTP/1.1 " + std::to_string(status) + " Error\r\nConnection: close\r\n";
  for (const auto& [name, value] : kHeaders) text += std::string(name) + ": " + value + "\r\n";
  text += "Content-Type: text/plain; charset=utf-8\r\nContent-Length: " + std::to_string(why.size() + 1) +
          "\r\n\r\n";
  return send(text + std::string(why) + "\n");
}

}  // namespace leat::observe
