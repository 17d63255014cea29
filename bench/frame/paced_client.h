// An HTTP client that sends requests at a fixed rate, whether the replies come in time or not: a server that
// stalls makes all requests of that time late, as those of real clients would be.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace leat::bench {

struct PacedResult {
  std::vector<double> latencies;  // seconds from when a request was due to the end of its reply; sorted
  uint64_t failed = 0;            // replies with another status than 200
  double Quantile(double q) const;
};

// Sends `request` (head and body) to `address` over so many connections in turn, `rate` times a second for
// `seconds`. A connection has one request at a time; further ones wait for it, and are late. Throws
// std::runtime_error if a connection cannot be made or ends.
PacedResult SendPaced(const std::string& address, const std::string& request, int connections, double rate,
                      double seconds);

// A connection for one request after the other.
class HttpConnection {
 public:
  explicit HttpConnection(const std::string& address);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // Sends a request and returns the body of its reply. Throws if the status is not 200, or after ten seconds.
  std::string Ask(const std::string& request);

 private:
  int socket_;
};

// "POST PATH HTTP/1.1…" with the body, as JSON.
std::string PostRequest(const std::string& path, const std::string& body);

}  // namespace leat::bench
