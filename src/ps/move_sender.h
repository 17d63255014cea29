// Sends slices to other servers: connects, sends the slices of a move, and reports the answer to
// protocol::Server. Loop's thread only.
//
// Slices are frozen while they are sent, so the connection is made before, and is kept for the next move to
// the same server. They go as fast as the link allows, because workers wait for them; the coordinator makes
// moves so small and so rare that training keeps its pace.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/ids.h"
#include "net/transport.h"
#include "protocol/server/server.h"

namespace leat::ps {

class MoveSender {
 public:
  // `transport` and `machine` must outlive the sender. `on_input` is called after each input to the machine
  // that does not come from a call of this class.
  MoveSender(net::Transport& transport, protocol::Server& machine, std::function<void()> on_input);
  ~MoveSender();

  void Act(const protocol::ConnectMove& a);
  void Act(const protocol::SendMove& a);
  void Act(const protocol::DropMove& a);
  uint64_t bytes() const { return bytes_; }  // of slices, sent so far

 private:
  class ServerConnection;

  void Fail(uint64_t move, const Status& why);

  net::Transport& transport_;
  protocol::Server& machine_;
  const std::function<void()> on_input_;
  std::map<NodeId, std::shared_ptr<ServerConnection>> connections_;
  uint64_t bytes_ = 0;
};

}  // namespace leat::ps
