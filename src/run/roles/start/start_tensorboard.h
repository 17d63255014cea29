// The writer of a job's event files for TensorBoard, if the process has been asked for them.
#pragma once

#include <memory>

#include "job/job.h"
#include "run/roles/start/coordinator_options.h"
#include "show/tensorboard/run_writer.h"

namespace leat::roles {

// Null if nobody has asked. Creates the file. Throws for errors of the user.
std::unique_ptr<tensorboard::RunWriter> StartTensorboard(const job::Job& job,
                                                         const CoordinatorOptions& options);

}  // namespace leat::roles
