// `leat feed`: serves the job's stream to workers on hosts that do not have it.
#pragma once

#include "base/status.h"
#include "run/roles/worker_role.h"

namespace leat::roles {

// Serves this host's copies of the job's input, until the job is over or a signal asks it to leave: both
// return ok. Returns kNotFound or kFailedPrecondition, with the path or topic and the values, if a copy is
// missing or is not the job's; kUnavailable if the coordinator cannot be reached or is lost.
Status RunFeed(const RoleOptions& options);

}  // namespace leat::roles
