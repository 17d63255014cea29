// The Connection that a transport hands out: it passes calls on to the transport's own object.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "net/transport.h"

namespace leat::net {

// `Owner` has Send and End as Connection has Send and Close, peer(), peer_roles(), and Detach(), which is
// called when the user destroys the connection: no upcall may follow. Its members may be private, with this
// class as a friend.
template <typename Owner>
class ConnectionHandle : public Connection {
 public:
  explicit ConnectionHandle(std::shared_ptr<Owner> owner) : owner_(std::move(owner)) {}
  ~ConnectionHandle() override { owner_->Detach(); }
  void Send(uint8_t type, Bytes header, std::vector<ByteView> payload,
            std::function<void(const Status&)> done) override {
    owner_->Send(type, std::move(header), std::move(payload), std::move(done));
  }
  void Close(Status why) override { owner_->End(std::move(why)); }
  const std::string& peer() const override { return owner_->peer(); }
  CertificateRoles peer_roles() const override { return owner_->peer_roles(); }

 protected:
  const std::shared_ptr<Owner> owner_;
};

}  // namespace leat::net
