#include "show/http/listener.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/encoding/printable.h"
#include "base/text.h"
#include "net/address.h"
#include "net/http_client/http_client.h"

namespace leat::observe {
namespace {

using net::http::Admission;

// A handler may block for a second or two; probes are answered meanwhile.
constexpr size_t kThreads = 4;
constexpr size_t kShort = 1024;  // too short for compression

// With each response. A page may load what its own listener serves, and nothing else; no other page may show
// or read it.
constexpr const char* kHeaders =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "X-Frame-Options: DENY\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Cross-Origin-Opener-Policy: same-origin\r\n"
    "Cache-Control: no-store\r\n";

// In a stream of events without events, a comment shows whether the viewer is still there.
constexpr Duration kSilence = std::chrono::seconds(10);
constexpr const char* kComment = ":\n\n";

std::string Compressed(const std::string& text) {
  constexpr int kGzip = 16;  // added to the window's bits: gzip's form
  z_stream zlib{};
  LEAT_CHECK(deflateInit2(&zlib, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + kGzip, MAX_MEM_LEVEL,
                          Z_DEFAULT_STRATEGY) == Z_OK);
  std::string small(deflateBound(&zlib, text.size()), 0);
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  zlib.avail_in = static_cast<uInt>(text.size());
  zlib.next_out = reinterpret_cast<Bytef*>(small.data());
  zlib.avail_out = static_cast<uInt>(small.size());
  LEAT_CHECK(deflate(&zlib, Z_FINISH) == Z_STREAM_END);
  small.resize(zlib.total_out);
  deflateEnd(&zlib);
  return small;
}

std::string_view CookieOf(std::string_view cookies, std::string_view name) {
  while (!cookies.empty()) {
    std::string_view cookie = Trimmed(TakeUntil(";", &cookies), " ");
    if (TakeUntil("=", &cookie) == name && !cookie.empty()) return cookie;
  }
  return {};
}

// The handshake of roles uses the same key with other labels (net/frames/handshake.cc).
constexpr std::string_view kLabel = "leat view token 1";

constexpr size_t kMaxReason = 200;

// The first line, without characters that a terminal would obey.
std::string Line(std::string_view body) {
  std::string line(body.substr(0, std::min(body.find('\n'), kMaxReason)));
  std::ranges::replace_if(
      line, [](unsigned char c) { return c < ' ' || c == 127; }, ' ');
  return line;
}

}  // namespace

std::string ViewToken(std::string_view token) {
  std::array<unsigned char, 32> digest;
  LEAT_CHECK(HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()),
                  reinterpret_cast<const unsigned char*>(kLabel.data()), kLabel.size(), digest.data(),
                  nullptr) != nullptr);
  return ToHex(std::as_bytes(std::span(digest)));
}

bool SameSecret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Viewers::Viewers(std::vector<HttpRoute> routes, std::string view_token, bool tls, size_t max_streams)
    : routes_(std::move(routes)), view_token_(std::move(view_token)), tls_(tls), max_streams_(max_streams) {
  LEAT_CHECK(!view_token_.empty());  // everyone would have it
}

void Viewers::OnListening(const std::string& address) {
  cookie_ = "leat-view-" + std::to_string(net::ParseAddress(address).value().port);
}

Admission Viewers::Admit(const net::RequestHead& head, net::CertificateRoles roles) {
  const std::string_view token = head.BearerToken();
  const bool viewer =
      roles.Has(net::CertificateRole::kObserver) ||
      SameSecret(token.empty() ? CookieOf(head.Header("cookie"), cookie_) : token, view_token_);
  return {.body = false, .peer = viewer ? Admission::Peer::kKnown : Admission::Peer::kUnknown};
}

std::string Viewers::SetCookie() const {
  return cookie_ + "=" + view_token_ + "; Path=/; HttpOnly; SameSite=Strict" + (tls_ ? "; Secure" : "");
}

Reply Viewers::Error(int status, std::string_view why) const {
  return {.status = status, .type = kText, .body = std::string(why) + "\n", .headers = kHeaders};
}

void Viewers::Handle(size_t /*thread*/, Request request, std::shared_ptr<net::http::Exchange> exchange) {
  exchange->Send(Answer(request));
}

Reply Viewers::Answer(const Request& request) {
  const std::string path = net::DecodePercent(request.head.path()).value_or("");
  std::string allowed;
  for (const HttpRoute& route : routes_) {
    if (route.path != path) continue;
    if (route.method != request.head.method) {
      allowed += (allowed.empty() ? "" : ", ") + (route.method == "GET" ? "GET, HEAD" : route.method);
      continue;
    }
    if (route.access == HttpRoute::Access::kViewers && !request.known) {
      return Error(
          401,
          "this needs the view token, as 'Authorization: Bearer TOKEN' (leat view-token shows it), or "
          "a certificate for the role observer");
    }
    Reply reply = route.handler(request);
    if (route.grants_cookie && request.known) reply.headers += "Set-Cookie: " + SetCookie() + "\r\n";
    return Completed(std::move(reply), request);
  }
  if (allowed.empty()) return Error(404, "there is nothing at this path");
  Reply reply = Error(405, "the method must be one of " + allowed);
  reply.headers += "Allow: " + allowed + "\r\n";
  return reply;
}

Reply Viewers::Completed(Reply reply, const Request& request) {
  reply.headers += kHeaders;
  if (reply.stream == nullptr) {
    if (reply.body.size() < kShort || !request.head.accepts_gzip()) return reply;
    reply.body = Compressed(reply.body);
    reply.headers += "Content-Encoding: gzip\r\n";
    return reply;
  }
  // Counts the stream for as long as the server has it.
  const std::shared_ptr<void> counted(nullptr, [streams = streams_](void*) { --*streams; });
  if (++*streams_ > max_streams_)
    return Error(503, "there are as many viewers as there may be; close another page");
  reply.headers += "X-Accel-Buffering: no\r\n";  // a proxy between would keep events back
  const MonotonicClock clock;
  reply.stream = [counted, clock, next = std::move(reply.stream), last = clock.Now(),
                  comments = reply.type == kEventStream]() mutable -> std::optional<std::string> {
    std::optional<std::string> piece = next();
    const Time now = clock.Now();
    if (comments && piece && piece->empty() && now - last > kSilence) piece = kComment;
    if (piece && !piece->empty()) last = now;
    return piece;
  };
  return reply;
}

Result<std::unique_ptr<HttpListener>> HttpListener::Start(Options options, std::vector<HttpRoute> routes) {
  std::unique_ptr<HttpListener> listener(new HttpListener(options, std::move(routes)));
  net::http::Server::Options http{
      .address = options.address,
      .threads = kThreads,
      .handlers_block = true,
      .tls = options.tls,
      .client_roles = net::CertificateRoles::All(),
      .own_names = net::OwnNames(
          std::move(options.hosts), options.address,
          options.tls == nullptr ? std::function<bool(const std::string&)>()
                                 : [tls = options.tls](const std::string& name) { return tls->IsFor(name); }),
      .max_connections = options.max_connections,
      .request_timeout = options.request_timeout,
      .write_timeout = options.write_timeout,
      .idle_timeout = options.idle_timeout};
  LEAT_ASSIGN_OR_RETURN(listener->server_,
                        net::http::Server::Start(std::move(http), listener->viewers_, listener->metrics_));
  return listener;
}

Status Probe(const ProbeOptions& options) {
  LEAT_ASSIGN_OR_RETURN(net::HostPort at, net::ParseAddress(options.address));
  if (at.port == 0) return {Code::kInvalidArgument, options.address + ": port 0 is none that can be asked"};
  if (at.host == "0.0.0.0") at.host = "127.0.0.1";
  if (at.host == "::") at.host = "::1";
  const auto client = net::MakeHttpClient({.verify = false, .proxy = false});
  const auto reply = client->Do({.url = (options.tls ? "https://" : "http://") + at.ToString() + options.path,
                                 .timeout = options.timeout,
                                 .name = options.address + " does not answer"});
  if (!reply.ok()) return {Code::kUnavailable, reply.status().message()};
  if (reply->status == 200) return {};
  return {Code::kFailedPrecondition, options.address + options.path + ": status " +
                                         std::to_string(reply->status) + ": " + Line(AsText(reply->body))};
}

}  // namespace leat::observe
