#include "run/roles/start/start_tensorboard.h"

#include <filesystem>
#include <utility>

#include "base/exit_status.h"
#include "base/log.h"
#include "base/path/absolute_path.h"
#include "net/address.h"
#include "show/tensorboard/event_file.h"
#include "show/tensorboard/job_graph.h"

namespace leat::roles {

std::unique_ptr<tensorboard::RunWriter> StartTensorboard(const job::Job& job,
                                                         const CoordinatorOptions& options) {
  if (options.tensorboard.empty()) return nullptr;
  namespace fs = std::filesystem;
  const fs::path directory = AbsolutePathOrThrow(job.directory);
  const auto name = (directory / "").lexically_normal().parent_path().filename();
  const fs::path folder = AbsolutePathOrThrow(options.tensorboard);
  auto file = tensorboard::EventFile::Create((folder / name).string(), net::HostName(), options.resume);
  if (!file.ok()) Throw(file.status().With("--tensorboard"));
  spdlog::info("tensorboard: {}", file->path());
  return std::make_unique<tensorboard::RunWriter>(
      tensorboard::RunWriter::Options{
          .make_graph =
              [model = job.model, batch = job.batch_size,
               optimizer = optim::Name(job.optimizer.kind)](const auto& placement) {
                return tensorboard::JobGraph(model->Build(batch), model->variables(), placement, optimizer);
              },
          .table = job.Slices()},
      [to = std::make_shared<tensorboard::EventFile>(std::move(*file))](const auto& events) {
        return to->Append(events);
      });
}

}  // namespace leat::roles
