// The transport over sockets.
#pragma once

#include <memory>

#include "net/transport.h"

namespace leat::net {

std::unique_ptr<Transport> MakeTcpTransport(Loop& loop, TransportOptions options);

}  // namespace leat::net
