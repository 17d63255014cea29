// A shared immutable value. A copy copies only the pointer.
#pragma once

#include <memory>
#include <utility>

namespace leat {

// Empty, or a const T. As thread-safe as a shared_ptr to a const T.
template <class T>
class Shared {
 public:
  Shared() = default;
  Shared(T value) : value_(std::make_shared<const T>(std::move(value))) {}  // NOLINT: implicit on purpose

  explicit operator bool() const { return value_ != nullptr; }
  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_.get(); }
  // Replaces the value with a new T. Fill it in before copying this Shared to anyone else.
  T& emplace() {
    auto fresh = std::make_shared<T>();
    T& value = *fresh;
    value_ = std::move(fresh);
    return value;
  }

  // Compares the values, not the pointers.
  friend bool operator==(const Shared& a, const Shared& b) {
    return a.value_ == b.value_ || (a && b && *a == *b);
  }

 private:
  std::shared_ptr<const T> value_;
};

}  // namespace leat
