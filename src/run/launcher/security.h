// How a role protects its connections: TLS with certificates (--security), or not at all, because the user
// trusts the networks between the hosts (--trusted-network). A role needs to know before it has the job.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "job/job.h"
#include "net/tls/tls_identity.h"

namespace leat::launcher {

struct Security {
  std::string folder;  // holds ca.pem, cert.pem, key.pem; empty: no TLS
  bool trusted_network = false;
  std::shared_ptr<net::TlsIdentity> tls = nullptr;  // read from `folder`
};

// The command line's choice; without one, that of $LEAT_SECURITY or $LEAT_TRUSTED_NETWORK=1. Reads the
// folder. Returns kInvalidArgument if both are chosen, and the errors of TlsIdentity::Load.
Result<Security> UserSecurity(const std::string& folder, bool trusted_network);

// Returns kInvalidArgument for an address beyond loopback that may not be listened on: there is neither TLS
// nor a trusted network. Blocks if a name has to be looked up.
Status CheckListen(const Security& security, const std::string& address);

// Returns kInvalidArgument if the job requires something else, or cannot run with TLS.
Status CheckJob(const Security& security, const job::Job& job);

}  // namespace leat::launcher
