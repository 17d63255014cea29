// A parameter server's data plane: protocol::Server behind a transport.
//
// Everything runs on the loop's thread. Gradients are read into a buffer of the connection's and applied
// slice by slice as they arrive, hot in cache; fresh values leave straight from the slices' memory. While
// they leave, another worker's update may change a slice that is half sent: asynchronous training takes
// values as they are, and each slice's version is the one at which its sending began. In stepped strategies
// updates leave alone what is being sent.
//
// A request that waits for a version is answered when it is there, without values when its worker sends
// another one on the connection or `parked_timeout` is over, and not at all when the connection closes.
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
  // The loop must outlive it. `parked_timeout`: shorter than workers wait for a reply.
  ServerShell(net::Loop& loop, protocol::ServerConfig config,
              Duration parked_timeout = std::chrono::seconds(3));
  ~ServerShell();

  // Takes over a connection that a listener has accepted; the returned receiver lives as long as the
  // connection does.
  net::Receiver* Adopt(std::unique_ptr<net::Connection> connection);
  // Heartbeats are made by the machine itself; their replies come through here, since requests may have
  // waited for what they bring.
  std::vector<protocol::ServerAction> OnHeartbeatReply(const protocol::ServerHeartbeatReply& reply);
  protocol::Server& machine() { return machine_; }
  // Bytes of payload moved so far, both ways together with headers.
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
  std::deque<std::pair<Time, uint64_t>> parked_since_;  // tickets too that are parked no more
  uint64_t timer_ = 0;                                  // 0: nothing is parked
  std::unordered_map<Session*, std::unique_ptr<Session>> sessions_;
  uint64_t bytes_in_ = 0;
  uint64_t bytes_out_ = 0;
};

}  // namespace leat::ps
