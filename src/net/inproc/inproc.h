// A transport within one process. Each message is copied once, from the sender's memory to the receiver's
// spans. The contract is that of tcp, including the token. The two ends may be on different loops.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "net/transport.h"

namespace leat::net {

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
