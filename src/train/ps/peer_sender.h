// Sends the orders of protocol::Server to other servers: slices that move there, and pushes for the replicas
// of slices. Reports the answers to it. Loop's thread only.
//
// Slices are frozen while they are sent, so the connection is made before, and is kept for the next move to
// the same server. They go as fast as the link allows, because workers wait for them; the coordinator makes
// moves so small and so rare that training keeps its pace.
//
// Pushes are forwarded one after the other without waiting for answers, from the memory in which they have
// arrived. A connection that ends, or on which an answer is missing for too long, is a lost link: the
// coordinator then makes other replicas.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "base/ids.h"
#include "net/loop.h"
#include "net/transport.h"
#include "protocol/server/server.h"

namespace leat::ps {

class PeerSender {
 public:
  // `loop`, `transport` and `machine` must outlive the sender. `on_move` and `on_forward` are called after
  // each input to the machine that does not come from a call of this class.
  PeerSender(net::Loop& loop, net::Transport& transport, protocol::Server& machine,
             std::function<void()> on_move, std::function<void()> on_forward);
  ~PeerSender();

  void Act(const protocol::ConnectMove& a);
  void Act(const protocol::SendMove& a);
  void Act(const protocol::DropMove& a);
  void Act(const protocol::Forward& a);
  void Act(const protocol::DropLink& a);
  // Sent so far: of slices, and of the payloads of pushes.
  uint64_t bytes_moved() const { return bytes_moved_; }
  uint64_t bytes_forwarded() const { return bytes_forwarded_; }

 private:
  class MoveLink;
  class ForwardLink;

  net::Loop& loop_;
  net::Transport& transport_;
  protocol::Server& machine_;
  const std::function<void()> on_move_, on_forward_;
  std::map<NodeId, std::shared_ptr<MoveLink>> moves_;
  std::map<NodeId, std::shared_ptr<ForwardLink>> forwards_;
  uint64_t bytes_moved_ = 0;
  uint64_t bytes_forwarded_ = 0;
};

}  // namespace leat::ps
