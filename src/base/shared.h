// A value that many hold and nobody changes: to copy it copies a pointer.
#pragma once

#include <memory>
#include <utility>

namespace leat {

// Empty, or a T. Thread-safe as far as a T is that is only read.
template <class T>
class Shared {
 public:
  Shared() = default;
  Shared(T value) : value_(std::make_shared<const T>(std::move(value))) {}  // NOLINT: as good as the T

  explicit operator bool() const { return value_ != nullptr; }
  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_.get(); }
  // In the stead of what was there, and to be filled in before anybody else gets hold of it.
  T& emplace() {
    auto fresh = std::make_shared<T>();
    T& value = *fresh;
    value_ = std::move(fresh);
    return value;
  }

  // Equal when the values are.
  friend bool operator==(const Shared& a, const Shared& b) {
    return a.value_ == b.value_ || (a && b && *a == *b);
  }

 private:
  std::shared_ptr<const T> value_;
};

}  // namespace leat
