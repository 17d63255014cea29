// A worker's side of the data plane: pushes out, fresh values straight into the parameters.
//
// Everything runs on the loop's thread; no call blocks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "net/transport.h"
#include "protocol/parameters.h"
#include "protocol/worker/worker.h"

namespace leat::ps {

class Client {
 public:
  struct Events {
    std::function<void(NodeId server, const protocol::PushReply& reply)> on_reply;
    std::function<void(NodeId server, uint64_t sequence, const Status& why)> on_failed;
  };

  // Both must outlive it. `connect_deadline`: to be connected to a server that is sent to for the first time.
  Client(net::Transport& transport, protocol::Parameters& parameters, Events events,
         Duration connect_deadline = std::chrono::seconds(5));
  ~Client();

  // Sends the request with the gradients of its slices; connects first when there is no connection yet. One
  // request a server at a time. The gradients must stay as they are, and the values be left alone, until an
  // event names its sequence.
  void Send(const protocol::SendPush& push);
  // Drops the connection and whatever of it is under way; no event follows. Events may call it.
  void Disconnect(NodeId server);

 private:
  class ServerConnection;

  net::Transport& transport_;
  protocol::Parameters& parameters_;
  Events events_;
  Duration connect_deadline_;
  std::map<NodeId, std::shared_ptr<ServerConnection>> connections_;
};

}  // namespace leat::ps
