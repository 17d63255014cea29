// `leat coordinator --standby`: a member of the job that takes it over when its coordinator does not answer
// any more. It needs the job's directory.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "job/job.h"
#include "run/roles/coordinator_role.h"

namespace leat::roles {

struct StandbyOptions {
  std::string leader;              // the coordinator: host:port, or several with commas between
  std::string directory;           // the job's
  std::function<job::Job()> load;  // the job from the directory, when it is taken over
  CoordinatorOptions coordinator;  // options of the coordinator that it becomes
};

// Runs in the calling thread until the job is over, until a signal, or until it cannot go on. Errors are
// those of RunCoordinator, or of the first join; but a coordinator that is replaced is a standby again.
Status RunStandby(StandbyOptions options);

}  // namespace leat::roles
