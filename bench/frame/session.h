// For benchmarks that take minutes: errors and interrupts that main catches, so that processes and temporary
// files are removed, and progress.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <string>

#include "base/status.h"

namespace leat::bench {

[[noreturn]] inline void Fail(const std::string& why) {
  throw std::runtime_error(why);
}

inline void Check(const Status& status) {
  if (!status.ok()) Fail(status.ToString());
}

// From now on SIGINT and SIGTERM only make CheckInterrupted throw. System calls that they interrupt go on.
void CatchInterrupts();
void CheckInterrupted();

// The main function of benchmark `name`: the exit status of `run`, or 1 after the message of its exception.
int Main(const char* name, int (*run)(int, char**), int argc, char** argv);

// Prints progress in a terminal, on one line that is overwritten.
template <class... Args>
void PrintProgress(const char* format, Args... args) {
  if (isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "\r\033[K");
  std::fprintf(stderr, format, args...);
}

}  // namespace leat::bench
