#include "base/threads/thread.h"

#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <vector>

#include "base/exit_status.h"

namespace leat {

void EndProcess(const std::exception& error) {
  const Status status = StatusOf(error);
  std::fprintf(stderr, "leat: %s\n", status.message().c_str());
  std::fflush(stderr);
  // Destructors would race with the other threads.
  _exit(ExitStatusOf(status.code()));
}

Status RunOnThreads(size_t threads, const std::function<Status()>& work) {
  std::mutex mutex;
  Status failure;
  const auto body = [&] {
    Status status;
    try {
      status = work();
    } catch (const std::exception& error) {
      status = StatusOf(error);
    }
    const std::lock_guard lock(mutex);
    if (failure.ok()) failure = std::move(status);
  };
  std::vector<std::thread> running;
  running.reserve(threads);
  try {
    while (running.size() < threads) running.push_back(StartThread(body));
  } catch (const std::exception& error) {
    if (running.empty()) return StatusOf(error);
  }
  for (std::thread& thread : running) thread.join();
  return failure;
}

}  // namespace leat
