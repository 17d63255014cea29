#include "run/pool/job_check.h"

#include <string>

namespace leat::pool {

Status CheckJob(const job::Job& job) {
  const std::string prefix = "job '" + job.name + "' ";
  if (!job.autoscale.command.empty()) {
    return {Code::kInvalidArgument,
            prefix +
                "has a command for its workers (autoscale: command), and in a pool the "
                "pool starts them; a job has one executor"};
  }
  if (job.strategy.mpi) {
    return {
        Code::kInvalidArgument,
        prefix +
            "reduces by MPI, so mpirun starts its workers, and none can come or go; a pool cannot run it"};
  }
  return {};
}

}  // namespace leat::pool
