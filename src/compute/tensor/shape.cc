#include "compute/tensor/shape.h"

#include <algorithm>
#include <stdexcept>

namespace leat {

Shape::Shape(std::initializer_list<int64_t> sizes)
    : Shape(std::span<const int64_t>(sizes.begin(), sizes.size())) {}

Shape::Shape(std::span<const int64_t> sizes) : rank_(sizes.size()) {
  if (sizes.size() > kMaxRank) {
    throw std::invalid_argument("a tensor has " + std::to_string(sizes.size()) + " axes; at most " +
                                std::to_string(kMaxRank) + " are supported");
  }
  std::copy(sizes.begin(), sizes.end(), sizes_.begin());
  int64_t product = 1;
  for (int64_t size : sizes) {
    if (size < 0) throw std::invalid_argument("shape " + ToString() + " has a negative size");
    // A size of 0 counts as 1, so that strides cannot overflow either.
    if (size == 0) continue;
    if (product > kMaxElements / size) {
      throw std::invalid_argument("shape " + ToString() + " has more than 2^40 elements");
    }
    product *= size;
  }
}

int64_t Shape::elements() const {
  int64_t product = 1;
  for (int64_t size : sizes()) product *= size;
  return product;
}

std::string Shape::ToString() const {
  std::string text = "[";
  for (size_t i = 0; i < rank_; ++i) text += (i ? ", " : "") + std::to_string(sizes_[i]);
  return text + "]";
}

bool operator==(const Shape& a, const Shape& b) {
  return std::ranges::equal(a.sizes(), b.sizes());
}

}  // namespace leat
