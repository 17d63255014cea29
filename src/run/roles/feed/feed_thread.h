// A feed on a thread of its own, in the process of a role.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "net/loop.h"
#include "net/transport.h"
#include "run/feed/server.h"

namespace leat::roles {

class FeedThread {
 public:
  // Listens on `address`; port 0: any free port. The errors of net::Transport::Listen.
  static Result<std::unique_ptr<FeedThread>> Start(const std::string& address,
                                                   net::TransportOptions transport, feed::Contents contents);
  // Closes all connections, once the request in progress has been answered.
  ~FeedThread();
  const std::string& address() const { return listener_->address(); }  // with the chosen port
  const feed::Server& server() const { return server_; }               // its counts

 private:
  explicit FeedThread(feed::Contents contents) : server_(std::move(contents)) {}

  net::Loop loop_;
  feed::Server server_;
  std::unique_ptr<net::Transport> transport_;
  std::unique_ptr<net::Listener> listener_;
  std::thread thread_;
};

}  // namespace leat::roles
