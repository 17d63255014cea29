// A transport within one process: messages are copied once, from the sender's memory into the receiver's
// spans. The same contract as tcp's, token included; the two ends may be on different loops.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "net/transport.h"

namespace leat::net {

// The addresses of one process: transports that share it can reach each other. Thread-safe.
class InprocHub {
 public:
  struct InprocAcceptor;  // a listener, as those who connect see it
  // The address at which it can be found from now on, its port chosen when it was 0.
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
