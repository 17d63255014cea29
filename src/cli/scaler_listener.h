// --scaler of a coordinator: where KEDA asks how many workers the job wants.
#pragma once

#include <memory>
#include <string>

#include "net/rpc/scaler/scaler_server.h"
#include "run/launcher/security.h"

namespace leat {

// Null without an address. Throws std::invalid_argument with the option if the address may not, or cannot, be
// listened on.
std::shared_ptr<control::ScalerServer> ListenForScaler(const launcher::Security& security,
                                                       const std::string& address);

}  // namespace leat
