// Requests of HTTP/1.1, their reader, and replies.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "net/security/certificate_roles.h"

namespace leat::net {

// The head of a request: request line and headers, as bytes from an unauthenticated peer (RFC 9110, RFC
// 9112). Pure.
struct RequestHead {
  // A longer head is refused. Browsers send the cookies of all servers of a host, whatever their ports.
  static constexpr size_t kMaxBytes = 16 << 10;
  static constexpr std::string_view kEnd = "\r\n\r\n";

  std::string method;     // "GET"
  std::string target;     // "/metrics?x=1"; "*" of OPTIONS
  bool http_1_0 = false;  // else HTTP/1.1
  // By name in lower case. A header that came more than once has all values, with ", " between. The host of a
  // target "http://host/path" is in the place of the header host.
  std::map<std::string, std::string> headers;

  // The target without the query, and the query without its question mark.
  std::string_view path() const;
  std::string_view query() const;
  // "a b" of "/path?name=a+b%20"; none: the query does not have the name.
  std::optional<std::string> QueryValue(std::string_view name) const;
  // "" if there is no such header.
  std::string_view Header(std::string_view name) const;
  // TOKEN of "Authorization: Bearer TOKEN"; "" without it.
  std::string_view BearerToken() const;
  bool has_body() const;
  bool keep_alive() const;
  bool accepts_gzip() const;
};

// Whether a method or a header may have this name.
bool IsToken(std::string_view text);
// %41 becomes A. None: a percent sign without two digits.
std::optional<std::string> DecodePercent(std::string_view text);

// Parses a whole head, its end included. kInvalidArgument with what is wrong: a line that is no header, a
// control character, a header that may come once only and came twice, a target that is no path.
Result<RequestHead> ParseHead(std::string_view head);

// The names under which a listener may be called, against pages of somebody else: a name of theirs could be
// made to lead here (DNS rebinding), and a browser would take this listener for a part of their page.
// Thread-safe.

// A request is refused so, whatever it asks for.
struct HttpRefusal {
  int status = 0;
  std::string why;
};

class OwnNames {
 public:
  // IP addresses, localhost, the host of `address`, and this host's name are known without being in `names`.
  // `certified`: whether a name is in the listener's certificate; null: it has none.
  explicit OwnNames(std::vector<std::string> names, const std::string& address = "",
                    std::function<bool(const std::string&)> certified = nullptr);

  // Checks the headers Host (status 421) and Origin (403).
  std::optional<HttpRefusal> Check(const RequestHead& head) const;

 private:
  bool Knows(std::string_view host) const;

  std::vector<std::string> names_;
  const std::function<bool(const std::string&)> certified_;
};

}  // namespace leat::net

namespace leat::net::http {

struct Request {
  RequestHead head;  // its method is never HEAD, which is answered as GET without the body
  std::string body = {};
  bool known = false;  // the peer is Admission::Peer::kKnown
};

// The next piece of a body without an end, such as an event of a page that follows a job. "": there is
// nothing yet; none: the end. It does not block. An exception ends the connection.
using Stream = std::function<std::optional<std::string>()>;

struct Reply {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
  std::string headers = {};  // further ones, each with its CR LF
  Stream stream = nullptr;   // instead of `body`
};

// A request and the place for its reply. It may outlive its connection, and the reply is dropped then, but
// not the server.
class Exchange {
 public:
  virtual ~Exchange() = default;
  // On the thread of the exchange. Later replies than the first are dropped.
  virtual void Send(Reply reply) = 0;
  // Runs `work` on the thread of the exchange. Thread-safe.
  virtual void Post(std::function<void()> work) = 0;
};

// The decision about a request by its head, before its body is read.
struct Admission {
  enum class Peer {
    kUnknown,  // has not shown that it may ask for more, such as a probe
    kAnyone,   // everyone may ask
    kKnown,    // has shown a token, or a certificate
  };
  std::optional<Reply> refusal = std::nullopt;  // ends the connection
  bool body = true;                             // false: a request with a body gets status 413
  // Connections of unknown peers make room for others. A peer of kAnyone is known once a request is complete.
  Peer peer = Peer::kAnyone;
};

// Called on the server's threads. A request whose handler throws gets status 500.
class Handler {
 public:
  virtual ~Handler() = default;
  // Once, before the first request: the address with the real port.
  virtual void OnListening(const std::string& /*address*/) {}
  // `roles`: of the peer's certificate, which has been verified; none if it has shown none.
  virtual Admission Admit(const RequestHead& /*head*/, CertificateRoles /*roles*/) { return {}; }
  // The reply to a request that the server refuses or cannot answer.
  virtual Reply Error(int status, std::string_view why) const = 0;
  // `thread`: from 0 to below the number of threads; the same one for all that belongs to the exchange.
  virtual void Handle(size_t thread, Request request, std::shared_ptr<Exchange> exchange) = 0;
  // All requests that had arrived are handled.
  virtual void OnRoundEnd(size_t /*thread*/) {}
};

// The bodies that all connections are reading now. Bodies up to kSmall are not counted. Thread-safe.
struct BodyMemory {
  static constexpr size_t kSmall = 64 << 10;
  size_t most = 256 << 20;  // a request that would need more gets status 503
  std::atomic<size_t> used{0};
};

// Reads the requests of one connection from its bytes, however they are split (RFC 9112). It has no socket
// and no clock. Its memory is a buffer of a fixed size, and the body that is being read.
class RequestReader {
 public:
  static constexpr size_t kBuffer = RequestHead::kMaxBytes;  // a longer head gets status 431
  struct Options {
    size_t max_body = 8 << 20;            // a longer one gets status 413
    size_t max_extras = 8 << 10;          // chunk extensions and trailers, which are ignored; status 431
    const OwnNames* own_names = nullptr;  // null: requests may name any host
    Handler* handler = nullptr;           // is asked to admit each request
    BodyMemory* bodies = nullptr;
  };
  enum class Event {
    kMore,      // more bytes are needed
    kContinue,  // as kMore, and the client waits for "100 Continue"
    kRequest,   // TakeRequest, then Next
    kRefused,   // TakeRefusal; further bytes can no longer be read
  };

  // `options` and the objects that it points to outlive it.
  explicit RequestReader(const Options& options);
  ~RequestReader() { Release(); }
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  // Where bytes go after kMore and kContinue: at least one; then Commit and Next.
  std::span<char> Space();
  void Commit(size_t bytes) { end_ += bytes; }
  Event Next();

  Request TakeRequest();
  Reply TakeRefusal();

  // The roles in the peer's certificate, for Admit.
  void SetRoles(CertificateRoles roles) { roles_ = roles; }
  // Nothing of a request has come.
  bool idle() const { return part_ == Part::kHead && begin_ == end_; }
  // The peer of the request whose head has come last.
  Admission::Peer peer() const { return peer_; }
  bool keep_alive() const { return keep_alive_; }
  bool head_only() const { return head_only_; }  // the reply has no body

 private:
  enum class Part { kHead, kBody, kChunkSize, kChunk, kChunkEnd, kTrailers, kDone, kRefused };

  // They return false if they need more bytes, or refuse the request.
  bool ReadHead();
  bool ReadBody();  // reads a body of known length, or a chunk
  bool ReadChunkSize();
  bool ReadChunkEnd();
  bool ReadTrailers();
  // A line up to its CR LF; false: it has not come whole, or is refused.
  bool TakeLine(std::string_view* line);

  void BeginBody(const RequestHead& head);
  bool Refuse(int status, std::string_view why);  // false
  bool RefuseTooLong();
  void Release();

  std::string_view unread() const { return {buffer_.get() + begin_, end_ - begin_}; }

  const Options& options_;
  const std::unique_ptr<char[]> buffer_;
  size_t begin_ = 0, end_ = 0;  // range of the unread bytes in the buffer
  size_t searched_ = 0;         // bytes of the head that have been searched for its end
  Part part_ = Part::kHead;
  size_t left_ = 0;      // unread bytes of the body, or of the chunk
  size_t extras_ = 0;    // bytes of extensions and trailers
  size_t reserved_ = 0;  // bytes reserved in BodyMemory
  bool wants_continue_ = false;
  bool keep_alive_ = false, head_only_ = false;
  CertificateRoles roles_;
  Admission::Peer peer_ = Admission::Peer::kUnknown;
  Request request_;
  Reply refusal_;
};

}  // namespace leat::net::http
