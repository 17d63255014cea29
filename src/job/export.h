// `leat export`: writes a checkpoint as an ONNX file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "job/job.h"

namespace leat::job {

struct Exported {
  uint64_t bytes = 0;   // of the file
  std::string warning;  // the newest checkpoint is damaged, and an older one was used; else empty
};
// Writes the network with these values as an ONNX file for batches of `batch` rows (0: any number), and
// returns the bytes of the file. `variables`: row-major, in the order of Job::Slices. Throws
// std::invalid_argument if the network cannot be exported.
Result<uint64_t> WriteOnnx(const Job& job, const std::vector<std::vector<float>>& variables,
                           const std::string& path, int64_t batch);
// As WriteOnnx, with the newest checkpoint that is not damaged. Returns kNotFound if there is no checkpoint,
// kDataLoss if all are damaged.
Result<Exported> ExportOnnx(const Job& job, const std::string& path, int64_t batch);

}  // namespace leat::job
