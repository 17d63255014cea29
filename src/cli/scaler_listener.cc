#include "cli/scaler_listener.h"

#include <utility>

#include "base/exit_status.h"

namespace leat {

std::shared_ptr<control::ScalerServer> ListenForScaler(const launcher::Security& security,
                                                       const std::string& address) {
  if (address.empty()) return nullptr;
  const auto require = [](const Status& status) { ThrowIfError(status.With("--scaler")); };
  require(launcher::CheckListen(security, address));
  auto server = control::ScalerServer::Start(address, security.tls);
  require(server.status());
  return std::move(*server);
}

}  // namespace leat
