// The transports: over sockets, shared memory and RDMA, and within a process.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "net/transport.h"

namespace leat::net {

// The transport over sockets.

std::unique_ptr<Transport> MakeTcpTransport(Loop& loop, TransportOptions options);

// The transport that shares memory with peers on this host, and uses RDMA in trusted networks.

// Connects and authenticates over tcp. Two ends on one host, in processes of one user, then exchange messages
// through shared memory with UCX; all other connections stay on tcp. `leat_net_ucx_connections` counts the
// open connections over UCX. Both ends must use this transport.
std::unique_ptr<Transport> MakeUcxTransport(Loop& loop, TransportOptions options);

// A transport within one process. Each message is copied once, from the sender's memory to the receiver's
// spans. The contract is that of tcp, including the token. The two ends may be on different loops.

// The address table of in-process transports. Transports with the same hub can reach each other. Thread-safe.
class InprocHub {
 public:
  struct InprocAcceptor;  // a listener, as seen by connecting transports
  // Registers a listener and returns its address, with a chosen port if `address` has port 0.
  Result<std::string> Open(const std::string& address, std::shared_ptr<InprocAcceptor> acceptor);
  void Shut(const std::string& address);
  std::shared_ptr<InprocAcceptor> Find(const std::string& address);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<InprocAcceptor>> acceptors_;
};

std::unique_ptr<Transport> MakeInprocTransport(Loop& loop, std::shared_ptr<InprocHub> hub,
                                               TransportOptions options);

}  // namespace leat::net
