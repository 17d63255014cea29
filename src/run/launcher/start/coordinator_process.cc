#include "run/launcher/start/coordinator_process.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "run/launcher/start/ready.h"
#include "run/launcher/start/stuck_watch.h"

namespace leat::launcher {
namespace {

// A coordinator that takes longer to start is waited for in words.
constexpr Duration kUsualStart = std::chrono::seconds(5);

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

}  // namespace leat::launcher
