#include "job/export.h"

#include "compute/onnx/export.h"
#include "storage/checkpoint/variables.h"

namespace leat::job {

std::string OnnxOf(const Job& job, const std::vector<std::vector<float>>& variables, int64_t batch) {
  return onnx::Export(*job.model, variables, {.batch = batch, .name = job.name});
}

Result<Exported> ExportOnnx(const Job& job, int64_t batch) {
  LEAT_ASSIGN_OR_RETURN(const auto newest, checkpoint::ReadNewestVariables(job.directory, job.Slices()));
  return Exported{OnnxOf(job, newest.variables, batch), newest.warning};
}

}  // namespace leat::job
