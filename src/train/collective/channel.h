// A connection and its receiver, which can change: first the port that waits for its greeting, then the
// process group. Loop's thread only.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "net/transport.h"

namespace leat::collective {

class Channel final : public net::Receiver {
 public:
  // As net::Receiver. A channel may be destroyed inside any callback.
  class Owner {
   public:
    virtual Result<std::vector<std::span<std::byte>>> OnHeader(Channel& channel, uint8_t type,
                                                               ByteView header, uint64_t payload_bytes) = 0;
    virtual bool OnView(Channel& /*channel*/, ByteView /*payload*/) { return false; }
    virtual void OnMessage(Channel& channel) = 0;
    virtual void OnSilence(Channel& /*channel*/, bool /*silent*/) {}
    virtual void OnClosed(Channel& channel, const Status& why) = 0;

   protected:
    ~Owner() = default;
  };

  explicit Channel(Owner* its_owner) : owner(its_owner) {}

  void Send(uint8_t type, Bytes header) {
    if (connection != nullptr) connection->Send(type, std::move(header), {});
  }

  Owner* owner;
  std::unique_ptr<net::Connection> connection;

 private:
  Result<std::vector<std::span<std::byte>>> OnHeader(net::Connection&, uint8_t type, ByteView header,
                                                     uint64_t payload_bytes) override {
    return owner->OnHeader(*this, type, header, payload_bytes);
  }
  // Every payload has a single span.
  bool OnView(net::Connection&, size_t, ByteView bytes) override { return owner->OnView(*this, bytes); }
  void OnMessage(net::Connection&) override { owner->OnMessage(*this); }
  void OnSilence(net::Connection&, bool silent) override { owner->OnSilence(*this, silent); }
  void OnClosed(net::Connection&, const Status& why) override { owner->OnClosed(*this, why); }
};

}  // namespace leat::collective
