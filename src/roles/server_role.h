// `leat ps`: a parameter server process: slices, their optimizer slots and ledgers.
#pragma once

#include "base/status.h"
#include "roles/worker_role.h"

namespace leat::train {

// Joins, serves until the job is over or a signal asks it to leave. Runs in the calling thread. kUnavailable
// when the coordinator cannot be reached or is lost, or the listening address cannot be had.
Status RunServer(const RoleOptions& options);

}  // namespace leat::train
