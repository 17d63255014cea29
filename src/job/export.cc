#include "job/export.h"

#include "onnx/export.h"

#include <filesystem>

#include "checkpoint/file.h"
#include "checkpoint/store.h"
#include "checkpoint/variables.h"

namespace leat::job {

Result<uint64_t> ExportOnnx(const Job& job, const std::string& path, int64_t batch) {
  LEAT_ASSIGN_OR_RETURN(const auto manifest, checkpoint::ReadNewest(job.directory));
  LEAT_ASSIGN_OR_RETURN(const auto variables,
                        checkpoint::ReadVariables(job.directory, manifest, job.Slices()));
  const std::string bytes = onnx::Export(*job.model, variables, {.batch = batch, .name = job.name});
  const std::filesystem::path to(path);
  const std::string directory = to.has_parent_path() ? to.parent_path().string() : ".";
  LEAT_RETURN_IF_ERROR(checkpoint::ReplaceFile(directory, to.filename().string(), AsBytes(bytes)));
  return uint64_t{bytes.size()};
}

}  // namespace leat::job
