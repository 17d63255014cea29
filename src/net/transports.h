// The transports: over sockets, shared memory and RDMA.
#pragma once

#include <memory>

#include "net/transport.h"

namespace leat::net {

// The transport over sockets.
std::unique_ptr<Transport> MakeTcpTransport(Loop& loop, TransportOptions options);

// The transport that shares memory with peers on this host, and uses RDMA in trusted networks.
//
// Connects and authenticates over tcp. Two ends on one host, in processes of one user, then exchange messages
// through shared memory with UCX; all other connections stay on tcp. `leat_net_ucx_connections` counts the
// open connections over UCX. Both ends must use this transport.
std::unique_ptr<Transport> MakeUcxTransport(Loop& loop, TransportOptions options);

}  // namespace leat::net
