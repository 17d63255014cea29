// Reads the requests of one connection from its bytes, however they are split (RFC 9112). It has no socket
// and no clock. Its memory is a buffer of a fixed size, and the body that is being read.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "net/http/exchange.h"

namespace leat::net::http {

// The bodies that all connections are reading now. Bodies up to kSmall are not counted. Thread-safe.
struct BodyMemory {
  static constexpr size_t kSmall = 64 << 10;
  size_t most = 256 << 20;  // a request that would need more gets status 503
  std::atomic<size_t> used{0};
};

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
