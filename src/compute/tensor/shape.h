// The shape of a dense, row-major tensor: its size along each axis. Immutable except by assignment.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace leat {

class Shape {
 public:
  static constexpr size_t kMaxRank = 6;
  // 2^40. No product of sizes or byte offset can overflow below it.
  static constexpr int64_t kMaxElements = int64_t{1} << 40;

  // Rank 0: a scalar.
  Shape() = default;
  // Throws std::invalid_argument if the rank exceeds kMaxRank, a size is negative, or there are more than
  // kMaxElements elements (an axis of size 0 counts as 1).
  Shape(std::initializer_list<int64_t> sizes);
  explicit Shape(std::span<const int64_t> sizes);

  size_t rank() const { return rank_; }
  int64_t operator[](size_t axis) const { return sizes_[axis]; }
  std::span<const int64_t> sizes() const { return {sizes_.data(), rank_}; }
  // 1 for a scalar, 0 if any size is 0.
  int64_t elements() const;
  // "[128, 784]"
  std::string ToString() const;

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::array<int64_t, kMaxRank> sizes_{};
  size_t rank_ = 0;
};

}  // namespace leat
