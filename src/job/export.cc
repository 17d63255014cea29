#include "job/export.h"

#include "onnx/export.h"

#include <filesystem>

#include "checkpoint/file.h"
#include "checkpoint/variables.h"

namespace leat::job {

Result<uint64_t> WriteOnnx(const Job& job, const std::vector<std::vector<float>>& variables,
                           const std::string& path, int64_t batch) {
  const std::string bytes = onnx::Export(*job.model, variables, {.batch = batch, .name = job.name});
  const std::filesystem::path to(path);
  const std::string directory = to.has_parent_path() ? to.parent_path().string() : ".";
  LEAT_RETURN_IF_ERROR(checkpoint::ReplaceFile(directory, to.filename().string(), AsBytes(bytes)));
  return bytes.size();
}

Result<Exported> ExportOnnx(const Job& job, const std::string& path, int64_t batch) {
  LEAT_ASSIGN_OR_RETURN(const auto newest, checkpoint::ReadNewestVariables(job.directory, job.Slices()));
  LEAT_ASSIGN_OR_RETURN(const uint64_t bytes, WriteOnnx(job, newest.variables, path, batch));
  return Exported{bytes, newest.warning};
}

}  // namespace leat::job
