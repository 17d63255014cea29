#include "run/launcher/start/start_job.h"

#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

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

// A coordinator that takes longer to start is waited for in words.
constexpr Duration kUsualStart = std::chrono::seconds(5);

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

constexpr std::string_view kWaits = "waits for ";
constexpr size_t kMostText = 1000;

}  // namespace

std::vector<std::string> CoordinatorArguments(const RunnerOptions& options, const job::Job& job,
                                              const CoordinatorStart& start) {
  std::vector<std::string> arguments;
  const auto add = [&arguments](const std::vector<std::string>& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
  };
  add({"coordinator", "--ready-fd", std::to_string(start.ready_fd), "--listen",
       start.again ? start.address : options.listen});
  if (!job.data.empty()) add({"--data", job.data});
  add(options.coordinator_arguments);
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
    if (const auto* bots = job.stream->bots(); bots != nullptr)
      add({"--rate", std::to_string(bots->rate), "--events", std::to_string(bots->events)});
  }
  return arguments;
}

FoundAddress AwaitAddress(const AddressWait& wait) {
  const MonotonicClock clock;
  // End of file without an address: it has failed.
  fcntl(wait.fd, F_SETFL, O_NONBLOCK);
  FoundAddress found;
  std::string waits, rest;
  const Time began = clock.Now();
  StuckWatch watch({}, began);
  bool late = false;
  // While it is started again, the first Ctrl-C waits for it, unless it waits for others.
  const auto interrupted = [&] { return wait.interrupts > (wait.again ? 1 : 0); };
  bool told = false;
  while (!found.over && found.address.empty() &&
         (!waits.empty() || !watch.IsStuck(clock.Now(), CpuTimeOf(wait.pid)))) {
    if (wait.interrupts > 0 && !waits.empty() && !std::exchange(told, true))
      wait.processes.Signal(wait.pid, SIGTERM);
    if (interrupted() && (waits.empty() || wait.interrupts > 1)) break;
    std::array<char, 4096> buffer{};
    const ssize_t n = read(wait.fd, buffer.data(), buffer.size());
    const ReadyNews news =
        TakeReady(std::string_view(buffer.data(), n > 0 ? static_cast<size_t>(n) : 0), &rest);
    found.address = news.address;
    if (news.waits) {
      waits = *news.waits;
      watch.Restart(clock.Now(), CpuTimeOf(wait.pid));
      if (!waits.empty()) wait.display.Say("the coordinator waits for " + waits);
    }
    found.over = n == 0;
    if (waits.empty() && clock.Now() > began + kUsualStart && !std::exchange(late, true))
      wait.display.Say(
          wait.resumes ? "waiting for the coordinator, which checks the checkpoint that the job resumes from"
                       : "waiting for the coordinator to start");
    if (n < 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return found;
}

Duration CpuTimeOf(pid_t pid) {
  clockid_t clock{};
  timespec used{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) return Duration::zero();
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

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

ReadyNews TakeReady(std::string_view bytes, std::string* rest) {
  rest->append(bytes);
  ReadyNews news;
  size_t begin = 0;
  for (size_t end; (end = rest->find('\n', begin)) != rest->npos && news.address.empty(); begin = end + 1) {
    const std::string_view line = std::string_view(*rest).substr(begin, end - begin);
    if (line.starts_with(kWaits)) {
      news.waits = line.substr(kWaits.size());
    } else {
      news.address = line;
    }
  }
  rest->erase(0, begin);
  // Nothing that a coordinator writes is so long.
  if (rest->size() > 4 * kMostText) rest->clear();
  return news;
}

Status SayReady(int fd, const std::string& address) {
  if (fd < 0) return {};
  const std::string line = address + "\n";
  const bool written = write(fd, line.data(), line.size()) >= 0;
  close(fd);
  if (written) return {};
  return {Code::kUnavailable,
          "cannot write the address to file descriptor " + std::to_string(fd) + " (--ready-fd)"};
}

std::string WaitsLine(std::string_view what) {
  std::string line(kWaits);
  line += what.substr(0, kMostText);
  std::ranges::replace_if(
      line, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return line + "\n";
}

}  // namespace leat::launcher
