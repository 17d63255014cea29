// How threads of listeners get the status of a job from the loop of its coordinator.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "base/status.h"
#include "show/report/job_status.h"

namespace leat::observe {

// Thread-safe.
class StatusSource {
 public:
  // Requests within this time after another get the same answer, so that the coordinator's work does not grow
  // with the number of viewers.
  static constexpr Duration kFresh = std::chrono::milliseconds(250);
  // For a loop that is busy.
  static constexpr Duration kDeadline = std::chrono::seconds(2);

  // Calls `done` with the status, from any thread, or drops it. It must not block.
  using Ask = std::function<void(std::function<void(report::JobStatus status)> done)>;
  // Null, as before the first call: there is no coordinator. The former one is not called any more once this
  // returns.
  void Set(Ask ask);

  // Blocks for kDeadline at most, and as long for an attempt of another thread. kNotFound: there is
  // no coordinator here. kUnavailable: it does not answer.
  Result<std::shared_ptr<const report::JobStatus>> Get();

 private:
  Result<std::shared_ptr<const report::JobStatus>> AskNow();

  const MonotonicClock clock_;
  std::mutex ask_mutex_;
  Ask ask_;
  std::atomic<uint64_t> coordinators_{1};  // grows with each call of Set
  std::mutex get_mutex_;                   // guards the members below
  Time asked_{0};
  uint64_t answered_by_ = 0;  // value of coordinators_
  Result<std::shared_ptr<const report::JobStatus>> last_ = Status(Code::kNotFound, "no coordinator");
};

}  // namespace leat::observe
