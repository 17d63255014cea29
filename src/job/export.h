// `leat export`: a checkpoint as an ONNX file.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "job/job.h"

namespace leat::train {

// Writes the newest checkpoint as an ONNX file for batches of that many rows, 0: of any number; returns its
// bytes. kNotFound when there is no checkpoint; throws std::invalid_argument when the network cannot be
// written.
Result<uint64_t> ExportOnnx(const Job& job, const std::string& path, int64_t batch);

}  // namespace leat::train
