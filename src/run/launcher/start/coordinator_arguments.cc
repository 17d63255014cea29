#include "run/launcher/start/coordinator_arguments.h"

namespace leat::launcher {

std::vector<std::string> CoordinatorArguments(const RunnerOptions& options, const job::Job& job,
                                              const CoordinatorStart& start) {
  std::vector<std::string> arguments;
  const auto add = [&arguments](const std::vector<std::string>& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
  };
  add({"coordinator", "--ready-fd", std::to_string(start.ready_fd), "--listen",
       start.again ? start.address : options.listen});
  if (!job.data.empty()) add({"--data", job.data});
  if (!options.tensorboard.empty()) add({"--tensorboard", options.tensorboard});
  if (options.tensorboard_gradients) add({"--tensorboard-gradients"});
  if (!options.metrics.empty()) add({"--metrics", start.metrics.empty() ? options.metrics : start.metrics});
  if (!options.dashboard.empty())
    add({"--dashboard", start.dashboard.empty() ? options.dashboard : start.dashboard});
  if (start.again) {
    // The directory has the whole job.
    add({"--resume", job.directory});
    if (options.pause_at > start.events) add({"--pause-at", std::to_string(options.pause_at - start.events)});
  } else {
    // Otherwise the job that is resumed has the numbers that it had.
    const job::JobOverrides& given = options.overrides;
    if (options.source.resume.empty() || !options.source.file.empty() || given.workers > 0 ||
        given.servers > 0) {
      const std::string workers = ToString(protocol::WorkerRange{job.workers, job.max_workers});
      add({"--workers", workers, "--ps", std::to_string(job.servers)});
    }
    if (options.source.resume.empty()) {
      add({"--directory", job.directory});
    } else {
      add({"--resume", job.directory, "--new-members"});
    }
    add(options.source_arguments);
    if (options.pause_at > 0) add({"--pause-at", std::to_string(options.pause_at)});
    if (const auto* bots = job.stream.bots(); bots != nullptr)
      add({"--rate", std::to_string(bots->rate), "--events", std::to_string(bots->events)});
  }
  return arguments;
}

}  // namespace leat::launcher
