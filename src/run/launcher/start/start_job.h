// Steps by which `leat train` starts a job: the job, checked and with a directory, before any process is
// started; the command line of its coordinator, and the wait for the coordinator's address.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "job/job.h"
#include "run/launcher/processes.h"
#include "run/launcher/runner.h"
#include "show/report/display.h"

namespace leat::launcher {

struct PreparedJob {
  job::Job job;
  bool made_directory = false;  // the directory is new, and useless if the job cannot be started
};
// Throws std::invalid_argument on a user's error, and StatusError. All checks come before the first write,
// which makes the job's directory. Reads the whole newest checkpoint of a job that is resumed, which may take
// minutes; Ctrl-C then ends this process.
PreparedJob PrepareJob(const RunnerOptions& options);

struct CoordinatorStart {
  int ready_fd = -1;
  bool again = false;  // it has died, and goes on where it was
  // As of the coordinator that has died; empty: not known.
  std::string address, metrics, dashboard;
  uint64_t events = 0;  // trained by the job
};
std::vector<std::string> CoordinatorArguments(const RunnerOptions& options, const job::Job& job,
                                              const CoordinatorStart& start);

struct AddressWait {
  int fd = -1;  // the pipe's end for reading
  pid_t pid = 0;
  bool again = false;    // it has died: the first Ctrl-C waits for it, unless it waits for others
  bool resumes = false;  // the job is not new
  const std::atomic<int>& interrupts;  // number of times that Ctrl-C was pressed
  Processes& processes;
  report::Display& display;
};
struct FoundAddress {
  std::string address;  // empty: it has failed, hangs, or is not wanted any more
  bool over = false;    // the coordinator has closed the pipe
};
// Blocks. Says what the coordinator waits for, and asks it to end when Ctrl-C was pressed meanwhile.
FoundAddress AwaitAddress(const AddressWait& wait);

// Processor time that a process has used so far; zero if there is none with this number.
Duration CpuTimeOf(pid_t pid);

// Tells a process that works for long from one that hangs, while it has nothing to say. Not thread-safe.
class StuckWatch {
 public:
  // A process hangs once it has used less than `least` of processor time for `limit`. Reading files from the
  // slowest of disks uses more; a process that waits for ever may still have timers.
  struct Limits {
    Duration limit = std::chrono::minutes(2);
    Duration least = std::chrono::milliseconds(100);
  };
  StuckWatch(const Limits& limits, Time now) : limits_(limits), since_(now) {}

  // `used`: CpuTimeOf the process, which never falls.
  bool IsStuck(Time now, Duration used) {
    if (used >= used_ + limits_.least) Restart(now, used);
    return now >= since_ + limits_.limit;
  }
  // The process has shown in another way that it is alive.
  void Restart(Time now, Duration used) {
    since_ = now;
    used_ = used;
  }

 private:
  const Limits limits_;
  Time since_;
  Duration used_ = Duration::zero();  // at `since_`
};

// ---- the lines that a starting coordinator writes to the pipe of --ready-fd

// "waits for TEXT" whenever the text changes, then its address. If the pipe ends without an address, the
// coordinator has failed.
struct ReadyNews {
  std::optional<std::string> waits;  // the last that has been said; "": for nothing any more
  std::string address;               // empty: not yet
};
// `rest` keeps what follows the last whole line, until the next call.
ReadyNews TakeReady(std::string_view bytes, std::string* rest);

// Writes the address to the pipe, and closes it; -1: nobody waits for it. Returns why it cannot be written.
Status SayReady(int fd, const std::string& address);

// The line, for the pipe. Line ends within the text become spaces; a long text is cut.
std::string WaitsLine(std::string_view what);

}  // namespace leat::launcher
