// Sizes of a dense, row-major tensor. Known when a graph is built; every product is checked.
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
  // Elements that one tensor may have at most: 2^40.
  static constexpr int64_t kMaxElements = int64_t{1} << 40;

  // Rank 0: a scalar.
  Shape() = default;
  // Throws std::invalid_argument on a rank above kMaxRank, a negative size, or too many elements (axes of
  // size 0 counted as 1).
  Shape(std::initializer_list<int64_t> sizes);
  explicit Shape(std::span<const int64_t> sizes);

  size_t rank() const { return rank_; }
  int64_t operator[](size_t axis) const { return sizes_[axis]; }
  std::span<const int64_t> sizes() const { return {sizes_.data(), rank_}; }
  // 1 for a scalar, 0 when any size is 0.
  int64_t elements() const;
  // "[128, 784]"
  std::string ToString() const;

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::array<int64_t, kMaxRank> sizes_{};
  size_t rank_ = 0;
};

}  // namespace leat
