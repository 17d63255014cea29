#include "scaler_listener.h"

#include <stdexcept>
#include <utility>

namespace leat {

std::shared_ptr<control::ScalerServer> ListenForScaler(const launcher::Security& security,
                                                       const std::string& address) {
  if (address.empty()) return nullptr;
  const auto require = [](const Status& status) {
    if (!status.ok()) throw std::invalid_argument("--scaler: " + status.message());
  };
  require(launcher::CheckListen(security, address));
  auto server = control::ScalerServer::Start(address, security.tls);
  require(server.status());
  return std::move(*server);
}

}  // namespace leat
