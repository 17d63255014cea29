// `leat ps`: a parameter server, which holds slices with their optimizer slots and ledgers.
#pragma once

#include "base/status.h"
#include "run/roles/worker_role.h"

namespace leat::roles {

// Joins and serves, in the calling thread, until the job is over or a signal asks it to leave. Returns
// kUnavailable if the coordinator cannot be reached or is lost, or if the address cannot be bound.
Status RunServer(const RoleOptions& options);

}  // namespace leat::roles
