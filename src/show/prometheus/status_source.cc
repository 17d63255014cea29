#include "show/prometheus/status_source.h"

#include <chrono>
#include <future>
#include <utility>

namespace leat::observe {

void StatusSource::Set(Ask ask) {
  std::lock_guard lock(ask_mutex_);
  ask_ = std::move(ask);
  ++coordinators_;
}

Result<std::shared_ptr<const report::JobStatus>> StatusSource::Get() {
  std::lock_guard lock(get_mutex_);
  const uint64_t coordinators = coordinators_;
  if (coordinators != answered_by_ || clock_.Now() - asked_ >= kFresh) {
    last_ = AskNow();
    asked_ = clock_.Now();
    answered_by_ = coordinators;
  }
  return last_;
}

Result<std::shared_ptr<const report::JobStatus>> StatusSource::AskNow() {
  auto promise = std::make_shared<std::promise<report::JobStatus>>();
  std::future<report::JobStatus> answer = promise->get_future();
  {
    std::lock_guard lock(ask_mutex_);
    if (ask_ == nullptr) return Status(Code::kNotFound, "no coordinator");
    ask_([promise = std::move(promise)](report::JobStatus status) { promise->set_value(std::move(status)); });
  }
  if (answer.wait_for(kDeadline) != std::future_status::ready)
    return Status(Code::kUnavailable, "the coordinator is busy");
  try {
    return std::make_shared<const report::JobStatus>(answer.get());
  } catch (const std::future_error&) {  // the question was dropped
    return Status(Code::kUnavailable, "the coordinator ends");
  }
}

}  // namespace leat::observe
