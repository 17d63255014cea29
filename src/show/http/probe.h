// Asks a listener whether its role is alive, or ready.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace leat::observe {

struct ProbeOptions {
  std::string address;  // the listener's "HOST:PORT"; a wildcard is asked on loopback
  std::string path = "/healthz";
  bool tls = false;  // with any certificate: nothing secret is sent
  Duration timeout = std::chrono::seconds(4);
};

// Ok if the answer has status 200. Otherwise one line with the address: kInvalidArgument for an address that
// is none or has port 0, kUnavailable if nobody answers in time, or not by HTTP, and kFailedPrecondition with
// the reason that the role gives. Blocks.
Status Probe(const ProbeOptions& options);

}  // namespace leat::observe
