// Whether a pool can run a job. A job has one executor, which starts and ends its processes: the local
// runner, a command of the user, or a pool.
#pragma once

#include "base/status.h"
#include "job/job.h"

namespace leat::pool {

// kInvalidArgument: the job has another executor, or workers that cannot come and go.
Status CheckJob(const job::Job& job);

}  // namespace leat::pool
