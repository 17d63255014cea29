// `leat export`: writes a checkpoint as an ONNX file.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "job/job.h"

namespace leat::job {

struct Exported {
  uint64_t bytes = 0;   // of the file
  std::string warning;  // the newest checkpoint is damaged, and an older one was used; else empty
};
// Writes the newest checkpoint that is not damaged as an ONNX file for batches of `batch` rows (0: any
// number). Returns kNotFound if there is no checkpoint, kDataLoss if all are damaged; throws
// std::invalid_argument if the network cannot be exported.
Result<Exported> ExportOnnx(const Job& job, const std::string& path, int64_t batch);

}  // namespace leat::job
