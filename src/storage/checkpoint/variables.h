// Reads a checkpoint as whole variables.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "protocol/records/manifest.h"

namespace leat::checkpoint {

// All variables of a complete checkpoint, row-major, for evaluation and export. `directory` is the job's.
Result<std::vector<std::vector<float>>> ReadVariables(const std::string& directory,
                                                      const protocol::Manifest& manifest,
                                                      const protocol::SliceTable& table);

struct NewestVariables {
  std::vector<std::vector<float>> variables;
  std::string warning;  // UsedInstead; empty if the newest checkpoint is intact
};
// All variables of the newest checkpoint that is not damaged. kNotFound if there is no complete checkpoint,
// kDataLoss if all are damaged.
Result<NewestVariables> ReadNewestVariables(const std::string& directory, const protocol::SliceTable& table);

}  // namespace leat::checkpoint
