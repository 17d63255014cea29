#include "session.h"

#include <csignal>

namespace leat::bench {
namespace {

volatile std::sig_atomic_t interrupted = 0;

}  // namespace

void CatchInterrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = 1; };
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void CheckInterrupted() {
  if (interrupted != 0) Fail("interrupted");
}

int Main(const char* name, int (*run)(int, char**), int argc, char** argv) {
  CatchInterrupts();
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench %s: %s\n", name, e.what());
    return 1;
  }
}

}  // namespace leat::bench
