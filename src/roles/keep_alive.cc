#include "roles/keep_alive.h"

#include <utility>

namespace leat::roles {

KeepAliveThread::KeepAliveThread(std::shared_ptr<control::ControlClient> client, Options options)
    : client_(std::move(client)),
      options_(std::move(options)),
      last_answer_(clock_.Now()),
      thread_([this] { Run(); }) {}

KeepAliveThread::~KeepAliveThread() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void KeepAliveThread::OnAnswer() {
  last_answer_.store(clock_.Now(), std::memory_order_relaxed);
}

void KeepAliveThread::Run() {
  std::unique_lock lock(mutex_);
  Time due = clock_.Now() + options_.silence;
  while (!stop_) {
    if (const Time now = clock_.Now(); now < due) {
      wake_.wait_for(lock, due - now);
      continue;
    }
    if (const Time next = last_answer_.load(std::memory_order_relaxed) + options_.silence;
        clock_.Now() < next) {
      due = next;
      continue;
    }
    lock.unlock();
    const auto reply = client_->Call(protocol::KeepAlive{options_.node, options_.progress->kernels()},
                                     options_.call_deadline);
    if (reply.ok()) OnAnswer();
    lock.lock();
    due = clock_.Now() + options_.silence;
  }
}

}  // namespace leat::roles
