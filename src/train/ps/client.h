// The worker's side of the data plane: sends pushes to servers and receives values directly into the
// parameters.
//
// Loop's thread only; no call blocks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "net/transport.h"
#include "protocol/parameters.h"
#include "protocol/worker/worker.h"

namespace leat::ps {

class Client {
 public:
  struct Events {
    std::function<void(NodeId server, const protocol::PushReply& reply)> on_reply;
    std::function<void(NodeId server, uint64_t sequence, const Status& why)> on_failed;
    // As net::Receiver::OnSilence, and before on_failed if the server's host has not answered an attempt to
    // connect. A new connection is not silent. Optional.
    std::function<void(NodeId server, bool silent)> on_silence = {};
  };

  // `transport` and `parameters` must outlive the client. `connect_deadline` limits each attempt to connect
  // to a server. It exceeds the time after which a host counts as silent.
  Client(net::Transport& transport, protocol::Parameters& parameters, Events events,
         Duration connect_deadline = std::chrono::seconds(10))
      : Client(transport, std::move(events), connect_deadline) {
    ReceiveInto(&parameters);
  }
  // Without parameters: call ReceiveInto before the first request, which must be a pull.
  Client(net::Transport& transport, Events events, Duration connect_deadline = std::chrono::seconds(10))
      : transport_(transport), events_(std::move(events)), connect_deadline_(connect_deadline) {}
  ~Client();

  // Values go there from now on. No request may be pending.
  void ReceiveInto(protocol::Parameters* parameters) { parameters_ = parameters; }

  // Sends the request with the gradients of its slices, after connecting if necessary. One request per server
  // at a time. Until an event reports its sequence, the gradients must not change and the values must not be
  // accessed.
  void Send(const protocol::SendPush& push);
  // Closes the connection and drops its pending request without an event. May be called from an event.
  void Disconnect(NodeId server);

 private:
  class ServerConnection;

  net::Transport& transport_;
  protocol::Parameters* parameters_ = nullptr;
  Events events_;
  Duration connect_deadline_;
  std::map<NodeId, std::shared_ptr<ServerConnection>> connections_;
};

}  // namespace leat::ps
