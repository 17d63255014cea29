// Gives a library that needs a plain socket the inside of a TLS connection.
#pragma once

#include <functional>
#include <memory>

#include "net/handshake/handshake.h"
#include "net/loop.h"
#include "net/same_host/same_host_peer.h"

namespace leat::net {

// Moves bytes between a TLS connection and `inside`, in buffers of a fixed size, until either ends. Loop's
// thread only.
class TlsPump {
 public:
  virtual ~TlsPump() = default;  // ends both
  // The library's end of the pair; call once.
  virtual Descriptor TakeInside() = 0;
};

// `on_end` runs on the loop once both connections are closed, never inside this call, and not if the pump is
// destroyed first; it may destroy the pump. Returns kResourceExhausted without a pair of sockets.
Result<std::unique_ptr<TlsPump>> MakeTlsPump(Loop& loop, AuthenticatedSocket authenticated,
                                             std::function<void()> on_end);

}  // namespace leat::net
