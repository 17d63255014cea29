// A parameter server's data plane: protocol::Server behind a transport.
//
// Everything runs on the loop's thread. Gradients are read into a buffer of the connection's and applied
// slice by slice as they arrive, hot in cache; fresh values leave straight from the slices' memory. While
// they leave, another worker's update may change a slice that is half sent: asynchronous training takes
// values as they are, and each slice's version is the one at which its sending began.
#pragma once

#include <memory>
#include <unordered_map>

#include "net/transport.h"
#include "protocol/server.h"

namespace leat::ps {

class ServerShell {
 public:
  explicit ServerShell(protocol::ServerConfig config);
  ~ServerShell();

  // Takes over a connection that a listener has accepted; the returned receiver lives as long as the
  // connection does.
  net::Receiver* Adopt(std::unique_ptr<net::Connection> connection);
  protocol::Server& machine() { return machine_; }
  // Bytes of payload moved so far, both ways together with headers.
  uint64_t bytes_in() const { return bytes_in_; }
  uint64_t bytes_out() const { return bytes_out_; }

 private:
  class Session;

  protocol::Server machine_;
  std::unordered_map<Session*, std::unique_ptr<Session>> sessions_;
  uint64_t bytes_in_ = 0;
  uint64_t bytes_out_ = 0;
};

}  // namespace leat::ps
