// What --metrics and --dashboard have in common: a listener for those who look at a role.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launcher/security.h"
#include "observe/http/http.h"
#include "observe/http/listener.h"

namespace leat {

struct ObserverOptions {
  std::string option;   // that the address comes from
  std::string address;  // HOST:PORT
  std::string token;
  launcher::Security security;
  std::string advertise = "";    // of the role; its host is also that of the listener
  std::string coordinator = "";  // of a member or standby; several with commas between
};

struct ObserverListener {
  std::unique_ptr<observe::HttpListener> listener;
  std::string address;  // that others are told
};

// Throws std::invalid_argument with the option if the address may not, or cannot, be listened on.
ObserverListener ListenForObservers(const ObserverOptions& options, std::vector<observe::HttpRoute> routes);

}  // namespace leat
