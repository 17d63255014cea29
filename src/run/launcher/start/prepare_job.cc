#include "run/launcher/start/prepare_job.h"

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/exit_status.h"
#include "base/path/paths.h"
#include "job/input/input_files.h"
#include "job/resume.h"
#include "net/address.h"
#include "run/launcher/security.h"
#include "run/launcher/signals.h"
#include "storage/checkpoint/store.h"

namespace leat::launcher {
namespace {

namespace fs = std::filesystem;

// Checkpoints of this size take seconds to check.
constexpr uint64_t kLargeCheckpoint = uint64_t{1} << 30;

// Creates "leat-jobs/<name>-<n>" with the lowest free n, and returns its absolute path.
std::string NewDirectory(const std::string& name) {
  const fs::path folder = AbsolutePathOrThrow("leat-jobs");
  std::error_code error;
  fs::create_directories(folder, error);
  const auto fail = [&error](const std::string& path) {
    Throw({CodeOfErrno(error.value()), "cannot create the directory " + path + ": " + error.message()});
  };
  if (error) fail(folder.string());
  for (int n = 1;; ++n) {
    const fs::path path = folder / (name + "-" + std::to_string(n));
    if (fs::create_directory(path, error)) return path.string();
    if (error) fail(path.string());
  }
}

// The whole newest checkpoint is read, which may take minutes; Ctrl-C ends the process at once.
std::string CheckCheckpoints(const job::Job& job) {
  const SignalWatch signals([](int) { _exit(ExitStatus::kInterrupted); });
  uint64_t bytes = 0;
  if (const auto newest = checkpoint::ReadNewest(job.directory); newest.ok()) {
    for (const auto& shard : newest->shards) bytes += shard.bytes;
  }
  if (bytes >= kLargeCheckpoint)
    std::fprintf(stderr, "checking the checkpoint of %s, %s\n", job.directory.c_str(),
                 protocol::BytesText(bytes).c_str());
  return job::DamageNote(job, job::CheckResumable(job));
}

// Settings that cannot be started here.
void CheckSettings(const RunnerOptions& options, const job::Job& job) {
  if (job.strategy.mpi) {
    job.config.At("strategy")
        .At("transport")
        .Fail("leat train cannot start MPI workers; start `leat coordinator`, then: mpirun -np " +
              std::to_string(job.workers) + " leat worker --coordinator ADDRESS");
  }
  if (!job.autoscale.command.empty()) {
    throw std::invalid_argument(
        "leat train starts and ends workers itself, so the job may not have a command for that (autoscale: "
        "command)");
  }
  for (const Status& status : {CheckListen(options.security, options.listen), CheckJob(options.security, job),
                               topology::CheckOneHost(job.topology, net::HostName(), options.place)}) {
    ThrowIfError(status);
  }
  for (const auto& [option, address] :
       {std::pair("--metrics", options.metrics), {"--dashboard", options.dashboard}}) {
    if (!address.empty()) ThrowIfError(CheckListen(options.security, address).With(option));
  }
}

void MakeDirectories(const std::string& directory) {
  std::error_code error;
  for (const std::string& made : {directory, directory + "/logs"}) {
    if (!error && fs::create_directories(made, error)) fs::permissions(made, fs::perms::owner_all, error);
  }
  if (!error && access(directory.c_str(), W_OK) != 0) error.assign(errno, std::generic_category());
  if (error) {
    Throw(
        {CodeOfErrno(error.value()), "cannot write to the directory " + directory + ": " + error.message()});
  }
}

}  // namespace

PreparedJob PrepareJob(const RunnerOptions& options) {
  job::JobOverrides overrides = options.overrides;
  job::Job job = job::Job::Load(options.source, overrides);
  CheckSettings(options, job);
  const bool resume = !options.source.resume.empty();
  if (resume) job = job::WithTrained(job, job::ReadStoredWithoutModel(job.directory).inputs);
  // At a resume, the coordinator waits for servers of the stream that are away.
  std::vector<std::string> warnings;
  if (!resume || !job.stream->traits().remote) warnings = job::CheckReadable(job);
  if (!resume) (void)job::CheckBucket(job, false);
  const bool made_directory = job.directory.empty() || !fs::exists(job.directory);
  if (!options.source.resume.empty()) {
    const std::string note = CheckCheckpoints(job);
    if (!note.empty()) job.notes.push_back(note);
  } else {
    if (job.directory.empty()) {
      overrides.directory = NewDirectory(job.name);
    } else if (fs::exists(job.directory + "/job.yaml")) {
      throw std::invalid_argument("directory " + job.directory +
                                  " already holds a job; continue it with --resume, or choose another");
    }
    job = job::Job::Load(options.source, overrides);
  }
  job.notes.insert(job.notes.end(), warnings.begin(), warnings.end());
  MakeDirectories(job.directory);
  return {std::move(job), made_directory};
}

}  // namespace leat::launcher
