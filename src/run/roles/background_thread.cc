#include "run/roles/background_thread.h"

#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "base/threads/thread.h"

namespace leat::roles {

BackgroundThread::BackgroundThread(int nice)
    : thread_(StartThread([this, nice] {
        // Linux has a nice value for each thread. If it cannot be set, the thread is as good as others.
        if (nice > 0) (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), nice);
        Run();
      })) {}

void BackgroundThread::End() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void BackgroundThread::Post(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    if (stop_) return;
    queue_.push_back(std::move(work));
  }
  wake_.notify_one();
}

void BackgroundThread::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    auto work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
  }
}

}  // namespace leat::roles
