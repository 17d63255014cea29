#include "launcher/signals.h"

#include <signal.h>

#include <utility>

namespace leat::launcher {
namespace {

sigset_t Watched() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

void BlockSignals() {
  sigset_t set = Watched();
  sigaddset(&set, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

SignalWatch::SignalWatch(std::function<void(int signal)> on_signal)
    : thread_([this, on_signal = std::move(on_signal)] {
        const sigset_t set = Watched();
        while (true) {
          int signal = 0;
          if (sigwait(&set, &signal) != 0) continue;
          if (stop_) return;
          on_signal(signal);
        }
      }) {}

SignalWatch::~SignalWatch() {
  stop_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

}  // namespace leat::launcher
