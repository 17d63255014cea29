// `leat export`: writes a checkpoint as an ONNX file.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "job/job.h"

namespace leat::job {

// Writes the newest checkpoint as an ONNX file for batches of `batch` rows (0: any number) and returns the
// size of the file in bytes. Returns kNotFound if there is no checkpoint; throws std::invalid_argument if the
// network cannot be exported.
Result<uint64_t> ExportOnnx(const Job& job, const std::string& path, int64_t batch);

}  // namespace leat::job
