#include "run/roles/keep_alive.h"

#include <algorithm>
#include <utility>

#include "base/threads/thread.h"

namespace leat::roles {

KeepAliveThread::KeepAliveThread(std::shared_ptr<control::ControlClient> client, Options options)
    : client_(std::move(client)),
      options_(std::move(options)),
      last_answer_(clock_.Now()),
      round_trips_(options_.round_trips),
      thread_(StartThread([this] { Run(); })) {}

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
  Time due = clock_.Now() + options_.silence, measure = due;
  while (!stop_) {
    if (const Time now = clock_.Now(); now < due) {
      wake_.wait_for(lock, due - now);
      continue;
    }
    if (const Time next = last_answer_.load(std::memory_order_relaxed) + options_.silence;
        clock_.Now() < std::min(next, measure)) {
      due = std::min(next, measure);
      continue;
    }
    lock.unlock();
    const Time sent = clock_.Now();
    const auto reply = client_->Call(protocol::KeepAlive{.node = options_.node,
                                                         .progress = options_.progress->kernels(),
                                                         .round_trip = round_trips_.least()},
                                     options_.call_deadline);
    if (reply.ok()) {
      OnAnswer();
      round_trips_.Add(clock_.Now() - sent);
      if (round_trips_.added() >= topology::RoundTrips::kLast) measure = clock_.Now() + kMeasure;
    }
    lock.lock();
    due = clock_.Now() + options_.silence;
  }
}

}  // namespace leat::roles
