// `leat coordinator`: manages the view, leases and checkpoints. No gradient passes through it.
#pragma once

#include "base/status.h"
#include "job/job.h"
#include "run/roles/start/coordinator_options.h"

namespace leat::roles {

// Runs the job's coordinator in the calling thread until the job is over, or until a signal stops it after a
// final checkpoint. Writes summary.json into the job's directory at the end. kStale: another coordinator has
// replaced this one, and goes on with the job. With `resume`, brokers and buckets that are away are waited
// for; kAborted: a signal came meanwhile. Throws std::invalid_argument for errors of the user, and
// StatusError.
Status RunCoordinator(const job::Job& job, const CoordinatorOptions& options);

}  // namespace leat::roles
