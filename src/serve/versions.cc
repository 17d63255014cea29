#include "serve/versions.h"

#include "base/check.h"

namespace leat::serve {

void Versions::Promote() {
  if (next_ == nullptr || in_use_) return;
  current_ = next_;
  next_ = nullptr;
}

protocol::Parameters* Versions::Begin() {
  std::lock_guard lock(mutex_);
  if (next_ != nullptr) return nullptr;
  return current_ == &sets_[0] ? &sets_[1].parameters : &sets_[0].parameters;
}

void Versions::Complete(protocol::Parameters* set, Time as_of, bool changed, uint64_t number) {
  std::lock_guard lock(mutex_);
  LEAT_CHECK(next_ == nullptr);
  Set* const written = set == &sets_[0].parameters ? &sets_[0] : &sets_[1];
  LEAT_CHECK(set == &written->parameters && written != current_);
  if (!changed && current_ != nullptr) {
    current_->version.as_of = as_of;
    return;
  }
  const uint64_t last = current_ != nullptr ? current_->version.number : 0;
  written->version = {.number = number != 0 ? number : last + 1, .as_of = as_of};
  next_ = written;
  Promote();
}

std::optional<Versions::InUse> Versions::Acquire() {
  std::lock_guard lock(mutex_);
  Promote();
  if (current_ == nullptr) return std::nullopt;
  in_use_ = true;
  return InUse{.parameters = &current_->parameters, .version = current_->version};
}

void Versions::Release() {
  std::lock_guard lock(mutex_);
  in_use_ = false;
  Promote();
}

std::optional<Version> Versions::newest() const {
  std::lock_guard lock(mutex_);
  if (next_ != nullptr) return next_->version;
  if (current_ != nullptr) return current_->version;
  return std::nullopt;
}

}  // namespace leat::serve
