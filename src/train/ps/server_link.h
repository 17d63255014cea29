// A connection that this process makes to a parameter server, and its end. Loop's thread only.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "net/transport.h"

namespace leat::ps {

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

}  // namespace leat::ps
