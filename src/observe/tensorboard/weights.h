// The distribution of each variable's values in a checkpoint.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "observe/tensorboard/events.h"
#include "protocol/coordinator/records/manifest.h"

namespace leat::tensorboard {

// By the names of the variables; moments, whose words are not numbers, are left out. Reads one slice at a
// time, so it needs little memory. `directory` is that of the checkpoint. kNotFound or kDataLoss if a shard
// is gone or damaged.
Result<std::vector<std::pair<std::string, Histogram>>> WeightHistograms(const std::string& directory,
                                                                        const protocol::Manifest& manifest,
                                                                        const protocol::SliceTable& table);

}  // namespace leat::tensorboard
