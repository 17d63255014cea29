// Benchmarks that run the real program: where it is, a directory that goes away, its processes.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace leat::bench {

// The program: $LEAT_PROGRAM, or the one of the same build.
std::string Program();

// From now on this process and its children have so many cores, where there are more.
void UseCores(int cores);

// A directory of this run, gone with it.
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

// The program in a process of its own that dies with this one; stdout and stderr go to a file. `under`: what
// starts it, a program and its first arguments (it has to become the program, by exec). Throws
// std::runtime_error.
class Running {
 public:
  Running(const std::vector<std::string>& arguments, std::string output,
          const std::vector<std::string>& under = {});
  ~Running();  // kills what is left
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  bool alive();
  void Interrupt();
  // It and the role processes that it has started stand still, and go on.
  void Pause() { Signal(SIGSTOP); }
  void Continue() { Signal(SIGCONT); }
  // The exit status, once it has ended.
  int Wait();
  // Sleeps until it has ended, but no longer: whether it is alive.
  bool WaitFor(double seconds);
  // (role, pid) of the role processes that it has started.
  std::vector<std::pair<std::string, pid_t>> Roles() const;
  // All that it has written so far.
  std::string Output() const;

 private:
  void Signal(int signal) const;

  pid_t pid_;
  std::string output_;
  int status_ = -1;
};

}  // namespace leat::bench
