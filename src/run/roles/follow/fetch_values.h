// The values that a running job has now.
#pragma once

#include <vector>

#include "base/status.h"
#include "job/job.h"
#include "run/roles/worker_role.h"

namespace leat::roles {

struct FetchedValues {
  job::Job job;
  std::vector<std::vector<float>> variables;  // row-major, in the order of Job::Slices
};

// Joins the job as a member that follows its parameters, pulls all of them once, and leaves. Blocks, at most
// until the deadline: kDeadlineExceeded, with what it waited for.
Result<FetchedValues> FetchValues(const RoleOptions& options, Duration deadline);

}  // namespace leat::roles
