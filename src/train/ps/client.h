// Links to parameter servers, and the worker's side of the data plane: sends pushes to servers and receives
// values directly into the parameters.
//
// Loop's thread only; no call blocks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "net/transport.h"
#include "protocol/parameters.h"
#include "protocol/worker/worker.h"

namespace leat::ps {

// A connection that this process makes to a parameter server, and its end.
class ServerLink : public net::Receiver, public std::enable_shared_from_this<ServerLink> {
 public:
  bool connected() const { return connection_ != nullptr; }
  // No event and no memory access from here on.
  virtual void Detach() {
    detached_ = true;
    connection_.reset();
  }

 protected:
  // Calls OnConnected or OnUnreachable later.
  void Connect(net::Transport& transport, const std::string& address, Duration deadline) {
    transport.Connect(address, this, deadline,
                      [self = shared_from_this()](Result<std::unique_ptr<net::Connection>> connection) {
                        if (self->detached_) return;
                        if (!connection.ok()) return self->OnUnreachable(connection.status());
                        self->connection_ = std::move(*connection);
                        self->OnConnected();
                      });
  }
  net::Connection& connection() { return *connection_; }
  bool detached() const { return detached_; }

  // Any event may detach the link.
  virtual void OnConnected() = 0;
  virtual void OnUnreachable(const Status& why) { OnLost(why); }
  virtual void OnLost(const Status& why) = 0;

 private:
  void OnClosed(net::Connection&, const Status& why) override {
    const auto self = shared_from_this();
    const Status reason = why;  // a copy: it is the connection's
    connection_.reset();
    OnLost(reason);
  }

  std::unique_ptr<net::Connection> connection_;
  bool detached_ = false;
};

// Slices of one variable are adjacent in memory. Merging adjacent spans sends many small slices with one
// system call.
template <class T>
void AppendSpan(std::span<T> span, std::vector<std::span<T>>* spans) {
  if (!spans->empty() && spans->back().data() + spans->back().size() == span.data()) {
    spans->back() = {spans->back().data(), spans->back().size() + span.size()};
  } else {
    spans->push_back(span);
  }
}

// ---- the worker's side

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
