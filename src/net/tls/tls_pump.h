// Gives a library that needs a plain socket the inside of a TLS connection.
#pragma once

#include <functional>
#include <memory>

#include "net/handshake/handshake.h"
#include "net/loop.h"
#include "net/same_host/same_host_peer.h"

namespace leat::net {

struct TlsPump {
  // Moves bytes between the TLS connection and `inside`, in buffers of a fixed size, until either ends. Its
  // last copy ends both. Loop's thread only.
  std::shared_ptr<void> pump;
  Descriptor inside;  // the library's end of the pair
};

// `on_end` runs on the loop once both connections are closed, never inside this call, and not if the pump is
// destroyed first; it may destroy the pump. Returns kResourceExhausted without a pair of sockets.
Result<TlsPump> MakeTlsPump(Loop& loop, AuthenticatedSocket authenticated, std::function<void()> on_end);

}  // namespace leat::net
