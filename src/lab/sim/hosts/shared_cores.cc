#include "lab/sim/hosts/shared_cores.h"

#include <algorithm>
#include <cmath>

namespace leat::sim {

namespace {

// Rounding errors of `work_`.
constexpr double kSlackNs = 1;

}  // namespace

double SharedCores::Share(uint32_t more) const {
  const uint32_t threads = threads_ + more;
  return threads <= cores_ ? 1 : cores_ / threads;
}

void SharedCores::Advance(Time now) {
  work_ += Share() * static_cast<double>((now - now_).count());
  now_ = now;
}

void SharedCores::Begin(Time now, uint32_t task, Duration work, uint32_t threads) {
  Advance(now);
  tasks_.push_back({work_ + static_cast<double>(work.count()), ++order_, task, threads});
  std::push_heap(tasks_.begin(), tasks_.end());
  threads_ += threads;
}

Time SharedCores::NextEnd() const {
  if (tasks_.empty()) return Time::max();
  const double left = std::max(0.0, tasks_.front().end - work_);
  return now_ + Duration(static_cast<int64_t>(std::ceil(left / Share())));
}

bool SharedCores::End(Time now, uint32_t* task) {
  Advance(now);
  if (tasks_.empty() || tasks_.front().end > work_ + kSlackNs) return false;
  std::pop_heap(tasks_.begin(), tasks_.end());
  *task = tasks_.back().task;
  threads_ -= tasks_.back().threads;
  tasks_.pop_back();
  return true;
}

}  // namespace leat::sim
