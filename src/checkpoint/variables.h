// Reads a checkpoint as whole variables.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "protocol/coordinator/coordinator.h"

namespace leat::checkpoint {

// All variables of a complete checkpoint, row-major, for evaluation and export. `directory` is the job's.
Result<std::vector<std::vector<float>>> ReadVariables(const std::string& directory,
                                                      const protocol::Manifest& manifest,
                                                      const protocol::SliceTable& table);

}  // namespace leat::checkpoint
