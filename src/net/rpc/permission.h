// Permissions at the coordinator: the requests that each certificate allows.
#pragma once

#include <string>

#include "base/status.h"
#include "net/security/certificate_roles.h"
#include "protocol/messages_control.h"

namespace leat::control {

// Returns kPermissionDenied with both roles if a peer with a certificate for `roles` may not ask this: a role
// joins and reports as itself only, admin changes the job, and everyone may read the status.
Status CheckPermission(net::CertificateRoles roles, const protocol::ControlRequest& request);

// "admin request", "join as a worker"
std::string Describe(const protocol::ControlRequest& request);

}  // namespace leat::control
