#include "run/launcher/signals.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/exit_status.h"
#include "base/threads/thread.h"

namespace leat::launcher {
namespace {

bool IsPipe(int fd) {
  struct stat info {};
  return fstat(fd, &info) == 0 && S_ISFIFO(info.st_mode);
}

Status Attempt(const std::function<Status()>& attempt) {
  try {
    return attempt();
  } catch (const StatusError& error) {
    return error.status();
  }
}

}  // namespace

sigset_t EndSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

void BlockSignals() {
  sigset_t set = EndSignals();
  sigaddset(&set, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

SignalWatch::SignalWatch(std::function<void(int signal)> on_signal)
    : thread_(StartThread([this, on_signal = std::move(on_signal)] {
        const sigset_t set = EndSignals();
        while (true) {
          int signal = 0;
          if (sigwait(&set, &signal) != 0) continue;
          if (stop_) return;
          on_signal(signal);
        }
      })) {}

SignalWatch::~SignalWatch() {
  stop_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

LifeWatch::LifeWatch(int fd, std::function<void()> on_end)
    : fd_(fd), stop_(fd < 0 ? -1 : eventfd(0, EFD_CLOEXEC)) {
  if (fd_ < 0) return;
  if (!IsPipe(fd_)) {
    close(stop_);
    throw std::invalid_argument("--life-fd is " + std::to_string(fd_) +
                                "; it must be the reading end of a pipe");
  }
  fcntl(fd_, F_SETFD, FD_CLOEXEC);
  thread_ = StartThread([this, on_end = std::move(on_end)] {
    std::array<pollfd, 2> waits{{{fd_, POLLIN, 0}, {stop_, POLLIN, 0}}};
    while (true) {
      if (poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) return;
      if (waits[1].revents != 0) return;
      if (waits[0].revents == 0) continue;
      std::array<char, 64> ignored{};
      const ssize_t n = read(fd_, ignored.data(), ignored.size());
      if (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN))) continue;
      return on_end();
    }
  });
}

LifeWatch::~LifeWatch() {
  if (fd_ < 0) return;
  const uint64_t one = 1;
  // It cannot fail: the counter is at most 1.
  [[maybe_unused]] const ssize_t written = write(stop_, &one, sizeof one);
  thread_.join();
  close(stop_);
  close(fd_);
}

Status AwaitHealing(const HealingOptions& options, const std::function<Status()>& attempt) {
  StopEvent stopped;
  std::string said;
  std::optional<SignalWatch> signals;
  signals.emplace([&](int) {
    if (options.on_signal) options.on_signal();
    stopped.Set();
  });
  for (Duration pause = options.first_pause;; pause = std::min(2 * pause, options.longest_pause)) {
    const Status status = Attempt(attempt);
    if (ExitStatusOf(status.code()) != ExitStatus::kMayHeal) {
      if (!said.empty() && options.on_wait) options.on_wait("");
      signals.reset();
      return status.ok() && stopped.is_set() ? Status(Code::kAborted, "interrupted") : status;
    }
    if (status.message() != said) {
      said = status.message();
      if (options.on_wait) options.on_wait(said);
    }
    if (stopped.Await(pause)) return {Code::kAborted, "interrupted while it waited for " + said};
  }
}

}  // namespace leat::launcher
