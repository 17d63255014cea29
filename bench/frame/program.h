// For benchmarks that run the real program: its path, its processes, and a temporary directory.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace leat::bench {

// The path of the program: $LEAT_PROGRAM, or the one of the same build.
std::string Program();

// Limits this process and its future children to this number of cores.
void UseCores(int cores);

// A temporary directory, removed by the destructor.
class Scratch {
 public:
  explicit Scratch(const std::string& name);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// The program in a child process, which dies with this one. Its stdout and stderr go to a file. `under`: a
// launcher and its arguments, which has to exec the program. Throws std::runtime_error.
class Running {
 public:
  Running(const std::vector<std::string>& arguments, std::string output,
          const std::vector<std::string>& under = {});
  ~Running();  // kills the processes that are left
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  bool alive();
  pid_t pid() const { return pid_; }
  void Interrupt();
  // Stops and continues the program and its role processes (SIGSTOP, SIGCONT).
  void Pause() { Signal(SIGSTOP); }
  void Continue() { Signal(SIGCONT); }
  // Waits for the end and returns the exit status.
  int Wait();
  // Waits for the end, at most this long. Returns whether it is still alive.
  bool WaitFor(double seconds);
  // (role, pid) of its role processes.
  std::vector<std::pair<std::string, pid_t>> Roles() const;
  // Its output so far.
  std::string Output() const;

 private:
  void Signal(int signal) const;

  pid_t pid_;
  std::string output_;
  int status_ = -1;
};

// The address in the line that a role prints when it has started; empty before.
std::string AddressIn(const Running& role, const std::string& before);

// Polls. Throws with the output of `role` if that ends, or after `seconds`.
void WaitFor(const std::string& what, Running& role, const std::function<bool()>& condition,
             double seconds = 60);

}  // namespace leat::bench
