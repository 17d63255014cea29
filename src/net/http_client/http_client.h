// HTTP requests, by libcurl.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/threads/thread.h"

namespace leat::net {

// Makes one request at a time. Tests have clients of their own.
class HttpClient {
 public:
  using Fields = std::vector<std::pair<std::string, std::string>>;

  struct Options {
    std::string ca, certificate, key;  // files; empty: the system's authorities, no certificate
    std::string key_password;
    std::string user;                 // NAME:PASSWORD of basic authentication
    bool verify = true;               // false: any certificate of the server will do
    bool proxy = true;                // as the environment says
    bool background = false;          // networks carry it after everything else
    size_t max_body = 16 << 20;       // bytes of Reply::body
    const StopEvent* stop = nullptr;  // set: requests end with kAborted
  };
  struct Request {
    std::string method = "GET";
    std::string url;
    Fields headers;
    ByteView body;              // body of PUT and POST, sent from this memory
    std::span<std::byte> into;  // where the body of a reply with status 2xx goes; empty: into Reply::body
    Duration timeout{0};
    std::string name;  // begins the message of an error; empty: the URL up to the path, which has no secret
  };
  struct Reply {
    int status = 0;
    Fields headers;  // names in lower case
    Bytes body;
    size_t written = 0;  // bytes in Request::into
    std::string Header(const std::string& name) const;
  };

  virtual ~HttpClient() = default;
  // Any reply of the server; redirects are replies. kUnavailable, kDeadlineExceeded or kAborted without a
  // complete reply, with a reason of one line; kDataLoss if the reply is larger than its place.
  virtual Result<Reply> Do(const Request& request) = 0;
};

// Keeps its connection for the next request, and ends a request in which no byte moves for 20 s.
std::unique_ptr<HttpClient> MakeHttpClient(const HttpClient::Options& options);

}  // namespace leat::net
