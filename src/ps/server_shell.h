// A parameter server's data plane: connects protocol::Server to a transport. Loop's thread only.
//
// Gradients are read into a buffer per connection and applied slice by slice while they are in the cache.
// Values are sent from the memory of the slices. In asynchronous training, another worker's update may change
// a slice while it is being sent; its version is the one at which sending began. In stepped strategies,
// updates wait until a slice is sent.
//
// A request that waits for a version is answered when the version is reached. It is answered without values
// if its worker sends another request or after `parked_timeout`, and dropped if the connection closes.
#pragma once

#include <deque>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "net/loop.h"
#include "net/transport.h"
#include "protocol/server/server.h"

namespace leat::ps {

class ServerShell {
 public:
  // `loop` must outlive the shell. `parked_timeout` must be shorter than the workers' reply timeout.
  ServerShell(net::Loop& loop, protocol::ServerConfig config,
              Duration parked_timeout = std::chrono::seconds(3));
  ~ServerShell();

  // Takes ownership of an accepted connection. The returned receiver lives as long as the connection.
  net::Receiver* Adopt(std::unique_ptr<net::Connection> connection);
  // Applies the coordinator's heartbeat reply and answers requests that waited for it. The machine itself
  // makes the heartbeats.
  std::vector<protocol::ServerAction> OnHeartbeatReply(const protocol::ServerHeartbeatReply& reply);
  protocol::Server& machine() { return machine_; }
  // Bytes of headers and payloads received and sent so far.
  uint64_t bytes_in() const { return bytes_in_; }
  uint64_t bytes_out() const { return bytes_out_; }

 private:
  class Session;

  void SendReady();
  void Park(uint64_t ticket, Session* session);
  void ExpireParked();

  net::Loop& loop_;
  Duration parked_timeout_;
  protocol::Server machine_;
  uint64_t last_ticket_ = 0;
  std::unordered_map<uint64_t, Session*> parked_;       // by ticket
  std::deque<std::pair<Time, uint64_t>> parked_since_;  // includes tickets that are no longer parked
  uint64_t timer_ = 0;                                  // 0: nothing is parked
  std::unordered_map<Session*, std::unique_ptr<Session>> sessions_;
  uint64_t bytes_in_ = 0;
  uint64_t bytes_out_ = 0;
};

}  // namespace leat::ps
