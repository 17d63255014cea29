// Other programs that a benchmark measures Leat against.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace leat::bench {

// The environment of this process without the variables that select, limit or slow numerical libraries and
// Python (OPENBLAS_*, MKL_*, OMP_*, XLA_*, PYTHON* and their like), and with `settings`
// ("OMP_NUM_THREADS=1"). Every baseline starts with it, so that it runs as well as it can on this machine.
std::vector<std::string> CleanEnvironment(const std::vector<std::string>& settings = {});

// Settings for CleanEnvironment: all libraries that a baseline uses get so many threads.
std::vector<std::string> ThreadSettings(int threads);

// In a child process: becomes that program with a clean environment. The first word is the program's absolute
// path and its argv[0]: a Python interpreter finds its packages by it. Returns only when the program cannot
// be started.
void ExecBaseline(const std::vector<std::string>& words, const std::vector<std::string>& settings);

// The interpreter of the Python environment with the packages of deploy/pip-<name>.txt, which is made first
// if need be: that announces its size, and takes minutes. Throws std::runtime_error with the reason.
std::string EnvironmentPython(const std::string& name);

// A baseline that answers each line of its standard input with one line. Its stderr is kept for error
// messages. Every failure throws std::runtime_error: "torch.py: ModuleNotFoundError: No module named
// 'torch'".
class Baseline {
 public:
  // `name` is for error messages.
  Baseline(std::string name, const std::vector<std::string>& words,
           const std::vector<std::string>& settings = {});
  ~Baseline();  // closes its input, and kills it when it does not end within seconds
  Baseline(const Baseline&) = delete;
  Baseline& operator=(const Baseline&) = delete;

  // The next line it writes, within so many seconds.
  std::string ReadLine(double seconds);
  // Its answer to a line.
  std::string Ask(const std::string& line, double seconds);
  // Closes its input; what else it writes until it ends, which it has to do within so many seconds and with
  // status 0.
  std::string Finish(double seconds);

 private:
  // Whether there is more to read.
  bool ReadMore(double end, double seconds);
  // Its exit status, shortly after it has closed its output.
  int Wait();
  [[noreturn]] void Fail(const std::string& what);

  std::string name_;
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1, errors_ = -1;
  std::string read_;  // and not yet made a line
};

}  // namespace leat::bench
