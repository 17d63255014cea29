// How the roles of a job authenticate each other, by a secret token that all hosts of the job have, and how a
// role protects its connections: TLS with certificates (--security), or not at all, because the user trusts
// the networks between the hosts (--trusted-network). A role needs to know before it has the job.
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

// $LEAT_TOKEN, or else the first line of the file $LEAT_TOKEN_FILE, or else of ~/.config/leat/token, which is
// created with a random token if it is missing. Returns kPermissionDenied or kInvalidArgument for a file that
// cannot be used (other users can read it, it is empty, $LEAT_TOKEN_FILE is missing), kNotFound if no file is
// named and none can be created.
Result<std::string> UserToken();

// A token that only the processes that get it from this one know.
std::string RandomToken();

}  // namespace leat::launcher
