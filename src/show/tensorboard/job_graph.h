// A job's graph as TensorBoard shows it: each variable on its server, each op on the worker that runs it.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "compute/nn/model.h"
#include "show/report/job_status.h"
#include "show/tensorboard/events.h"

namespace leat::tensorboard {

// As in a job's status; none: the job has no servers, its workers have the variables.
using Placement = std::optional<std::vector<report::VariableStatus>>;

// The graph of a training step. All workers run the same one; its ops are on "/job:worker/task:0".
//
// A variable on one server is a node of its own name on "/job:ps/task:N". A divided variable has a node
// NAME/ps_N on each server, and a node `concat` of its own name on the worker, which is the pull of its
// parts. A gradient goes to a node NAME/apply_OPTIMIZER on the server, or by way of NAME/all_reduce to a node
// on the worker. `placement`: as above.
Graph JobGraph(const nn::StepGraph& step, const std::vector<nn::VariableSpec>& variables,
               const Placement& placement, std::string_view optimizer);

}  // namespace leat::tensorboard
