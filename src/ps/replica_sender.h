// Forwards pushes to the servers of replicas, and reports the answers to protocol::Server. Loop's thread
// only.
//
// Pushes are sent one after the other without waiting for answers, from the memory in which they have
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

class ReplicaSender {
 public:
  // `loop`, `transport` and `machine` must outlive the sender. `on_input` is called after each input to the
  // machine.
  ReplicaSender(net::Loop& loop, net::Transport& transport, protocol::Server& machine,
                std::function<void()> on_input);
  ~ReplicaSender();

  void Act(const protocol::Forward& a);
  void Act(const protocol::DropLink& a);
  uint64_t bytes() const { return bytes_; }  // of payloads, sent so far

 private:
  class ServerConnection;

  void Fail(NodeId server, uint64_t link, const Status& why);

  net::Loop& loop_;
  net::Transport& transport_;
  protocol::Server& machine_;
  const std::function<void()> on_input_;
  std::map<NodeId, std::shared_ptr<ServerConnection>> connections_;
  uint64_t bytes_ = 0;
};

}  // namespace leat::ps
