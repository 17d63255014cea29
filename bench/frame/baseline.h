// Runs the other programs that a benchmark compares Leat with.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace leat::bench {

// The environment of this process without the variables that select, limit or slow numerical libraries and
// Python (OPENBLAS_*, MKL_*, OMP_*, XLA_*, PYTHON* and their like), and with `settings`
// ("OMP_NUM_THREADS=1"). Every baseline starts with it, so that it runs as well as it can on this machine.
std::vector<std::string> CleanEnvironment(const std::vector<std::string>& settings = {});

// Settings for CleanEnvironment that give each numerical library this number of threads.
std::vector<std::string> ThreadSettings(int threads);

// To be called in a child process: executes a program with a clean environment. The first word is the
// absolute path of the program and its argv[0], by which a Python interpreter finds its packages. Returns
// only if the program cannot be started.
void ExecBaseline(const std::vector<std::string>& words, const std::vector<std::string>& settings);

// Returns the Python interpreter of the environment with the packages of deploy/pip-<name>.txt. Creates the
// environment if it is missing, which prints the download size and takes minutes. Throws std::runtime_error.
std::string EnvironmentPython(const std::string& name);

// A process that replies to each line of its standard input with one line of output. Its stderr is kept for
// error messages. All failures throw std::runtime_error, for example
// "torch.py: ModuleNotFoundError: No module named 'torch'".
class Baseline {
 public:
  // `name` is for error messages.
  Baseline(std::string name, const std::vector<std::string>& words,
           const std::vector<std::string>& settings = {});
  ~Baseline();  // closes its input, and kills it if it does not end within seconds
  Baseline(const Baseline&) = delete;
  Baseline& operator=(const Baseline&) = delete;

  // Waits for the next line of output, at most `seconds`.
  std::string ReadLine(double seconds);
  // Sends a line and returns the reply.
  std::string Ask(const std::string& line, double seconds);
  // Closes its input and returns the remaining output. The program has to end within `seconds` with status 0.
  std::string Finish(double seconds);

 private:
  // Reads more output. Returns false at its end.
  bool ReadMore(double end, double seconds);
  // Waits for its exit status. To be called after the end of its output.
  int Wait();
  [[noreturn]] void Fail(const std::string& what);

  std::string name_;
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1, errors_ = -1;
  std::string read_;  // output after the last complete line
};

}  // namespace leat::bench
