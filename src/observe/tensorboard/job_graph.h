// A job's graph as TensorBoard shows it: each variable on its server, each op on the worker that runs it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nn/model.h"
#include "observe/tensorboard/events.h"

namespace leat::tensorboard {

// The servers that a variable is on.
struct VariablePlacement {
  struct Part {
    uint32_t server = 0;  // index
    uint64_t bytes = 0;
    friend bool operator==(const Part&, const Part&) = default;
  };
  std::string name;
  std::vector<Part> parts;  // ascending by server
  friend bool operator==(const VariablePlacement&, const VariablePlacement&) = default;
};

// As in a job's status; none: the job has no servers, its workers have the variables. Throws
// nlohmann::json::exception if it is no status.
std::optional<std::vector<VariablePlacement>> PlacementIn(const nlohmann::json& status);

// The graph of a training step. All workers run the same one; its ops are on "/job:worker/task:0".
//
// A variable on one server is a node of its own name on "/job:ps/task:N". One that is divided has a node
// NAME/ps_N on each server, and a node `concat` of its own name on the worker, which is the pull of its
// parts. A gradient goes to a node NAME/apply_OPTIMIZER on the server, or by way of NAME/all_reduce to one on
// the worker. `placement`: as above.
Graph JobGraph(const nn::StepGraph& step, const std::vector<nn::VariableSpec>& variables,
               const std::optional<std::vector<VariablePlacement>>& placement, std::string_view optimizer);

}  // namespace leat::tensorboard
