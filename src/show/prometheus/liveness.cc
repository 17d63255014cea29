#include "show/prometheus/liveness.h"

#include <utility>

namespace leat::observe {

void Liveness::Watch(Time now, std::function<uint64_t()> kernels) {
  std::lock_guard lock(mutex_);
  kernels_ = std::move(kernels);
  last_ = now;
  finished_ = kernels_();
}

void Liveness::Unwatch() {
  std::lock_guard lock(mutex_);
  kernels_ = nullptr;
}

void Liveness::Turned(Time now) {
  std::lock_guard lock(mutex_);
  if (kernels_ == nullptr) return;
  last_ = now;
  finished_ = kernels_();
}

bool Liveness::Alive(Time now) {
  std::lock_guard lock(mutex_);
  if (kernels_ == nullptr) return true;
  if (const uint64_t finished = kernels_(); finished != finished_) {
    last_ = now;
    finished_ = finished;
  }
  return now - last_ <= kStalled;
}

}  // namespace leat::observe
