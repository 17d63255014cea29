// `leat export`: a checkpoint as an ONNX file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "job/job.h"

namespace leat::job {

struct Exported {
  std::string file;     // its content
  std::string warning;  // the newest checkpoint is damaged, and an older one was used; else empty
};
// The ONNX file of the network with these values, for batches of `batch` rows (0: any number). `variables`:
// row-major, in the order of Job::Slices. Throws std::invalid_argument if the network cannot be exported.
std::string OnnxOf(const Job& job, const std::vector<std::vector<float>>& variables, int64_t batch);
// The same with the newest checkpoint that is not damaged. Returns kNotFound if there is no checkpoint,
// kDataLoss if all are damaged.
Result<Exported> ExportOnnx(const Job& job, int64_t batch);

}  // namespace leat::job
