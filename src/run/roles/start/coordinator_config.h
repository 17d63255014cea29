// The settings of the coordinator's state machine, by the job and the options of its process.
#pragma once

#include <cstdint>

#include "job/job.h"
#include "protocol/coordinator/coordinator.h"
#include "run/roles/start/coordinator_options.h"

namespace leat::roles {

// Without what the stream tells: feeds, partitions, and their places. `term`: of the job's directory. Reads
// the job that the directory has.
protocol::CoordinatorConfig MakeCoordinatorConfig(const job::Job& job, const CoordinatorOptions& options,
                                                  uint64_t term);

}  // namespace leat::roles
