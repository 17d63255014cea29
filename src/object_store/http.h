// HTTP requests to an object store.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "object_store/sigv4.h"

namespace leat::object_store {

struct HttpRequest {
  std::string method;
  std::string url;
  Fields headers;
  ByteView body;              // sent as it is, from this memory
  std::span<std::byte> into;  // where the body of a reply with status 2xx goes; empty: into HttpReply::body
  Duration timeout{0};
};

struct HttpReply {
  int status = 0;
  Fields headers;      // names in lower case
  Bytes body;          // at most kMaxReply
  size_t written = 0;  // bytes in HttpRequest::into
  std::string Header(const std::string& name) const;
};

// One request at a time. Tests have their own.
class Http {
 public:
  virtual ~Http() = default;
  // kUnavailable, kDeadlineExceeded or kAborted without a complete reply, with one line that names the host
  // and no secret; kDataLoss if the reply is larger than its place.
  virtual Result<HttpReply> Do(const HttpRequest& request) = 0;
};

struct HttpOptions {
  std::string ca;                           // a file; empty: the system's certificates
  const std::atomic<bool>* stop = nullptr;  // set: requests end with kAborted
};
// By libcurl. It keeps its connection for the next request, and ends a request in which no byte moves for 20
// s.
std::unique_ptr<Http> MakeHttp(const HttpOptions& options);

}  // namespace leat::object_store
