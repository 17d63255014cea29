// Starts, monitors and ends the child processes of the local runner.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace leat::launcher {

struct ProcessSpec {
  std::string name;                                // "worker-0"
  std::vector<std::string> arguments;              // command line, without the program
  std::map<std::string, std::string> environment;  // added to the parent's
  std::string log;                                 // file that stdout and stderr are appended to: kMostLog
  std::vector<int> namespaces;                     // descriptors; the process enters them
  std::string program;                             // empty: this one
  std::optional<uint32_t> user;  // it runs as this user and group, in no other group; needs root
  bool own_environment = false;  // it gets nothing but `environment`
  std::string directory;         // working directory; empty: this process's
};

// A log that grows longer, in bytes, begins again. Its former content replaces the file "<log>.1".
inline constexpr uint64_t kMostLog = 16 << 20;

struct ProcessEnd {
  pid_t pid = 0;
  std::string name;
  int exit_code = 0;       // 128 + signal if a signal ended it
  std::string last_error;  // LastErrorLine of its log
  double cpu_seconds = 0;
  uint64_t peak_rss_bytes = 0;
};

// The exit code of a child whose program could not be started, or not as the job's user.
inline constexpr int kNotStarted = 127;

// The children of this process. Each is in its own process group, so Ctrl-C reaches the parent only, and is
// killed when the parent dies. Not thread-safe, except for Wake.
class Processes {
 public:
  // Restores the default handling of SIGCHLD, which the parent process may have set to "ignore".
  Processes();
  ~Processes();  // kills all remaining children
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  // Starts the program with the given arguments.
  Result<pid_t> Start(const ProcessSpec& spec);
  // Signals a child; does nothing if it has ended.
  void Signal(pid_t pid, int signal);
  // Returns the children that have ended since the last call. Does not block. Keeps their logs short.
  std::vector<ProcessEnd> Reap();
  // Blocks until a child has ended that is not reaped yet, Wake is called, or `wait` has passed.
  void Await(Duration wait) const;
  // Ends a call of Await. Thread-safe.
  void Wake();
  void Signal(int signal);  // to all children
  bool empty() const { return running_.empty(); }
  double cpu_seconds() const { return cpu_seconds_; }  // CPU time of all children that have ended

 private:
  struct Process {
    std::string name;
    std::string log;
    uint64_t log_begin = 0;  // length of the log when the process was started
    void LimitLog();
  };
  std::map<pid_t, Process> running_;
  const int wake_;  // an eventfd
  double cpu_seconds_ = 0;
};

// ---- programs of others

// This process's environment with these variables in place of its own.
std::vector<std::string> EnvironmentWith(const std::map<std::string, std::string>& changes);
// Starts a program, looked up in $PATH, in a process group of its own, so that Ctrl-C reaches this process
// only. It has the signals of a new process, these descriptors as stdout and stderr, and no other ones.
// Returns the error; 0: none.
int Spawn(const std::vector<std::string>& arguments, const std::vector<std::string>& environment, int out,
          int error, pid_t* pid);
// Ends it and what it runs.
void KillGroup(pid_t pid);

// The reason why a role failed: the last line of its log, from byte `from` on, that begins with "leat: ".
// Returns the line without this prefix, or "" if there is none. Only the end of a long log is read.
std::string LastErrorLine(const std::string& log, uint64_t from = 0);

}  // namespace leat::launcher
