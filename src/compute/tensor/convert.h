// Conversion of one element to another type, with the semantics of ops::Cast: floats are truncated towards
// zero, out-of-range values are clamped, NaN becomes 0.
#pragma once

#include <limits>
#include <type_traits>

#include "compute/tensor/bf16.h"

namespace leat {

template <class To, class From>
To ConvertTo(From x) {
  if constexpr (std::is_same_v<From, Bf16>) {
    return ConvertTo<To>(ToFloat(x));
  } else if constexpr (std::is_same_v<To, Bf16>) {
    return ToBf16(static_cast<float>(x));
  } else if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(x);
  } else if constexpr (std::is_floating_point_v<From>) {
    // max() as f32 may round up beyond the range of To, hence >= below.
    constexpr auto kMin = static_cast<float>(std::numeric_limits<To>::lowest());
    constexpr auto kMax = static_cast<float>(std::numeric_limits<To>::max());
    if (x != x) return 0;
    if (x <= kMin) return std::numeric_limits<To>::lowest();
    if (x >= kMax) return std::numeric_limits<To>::max();
    return static_cast<To>(x);
  } else {
    constexpr auto kMin = static_cast<int64_t>(std::numeric_limits<To>::lowest());
    constexpr auto kMax = static_cast<int64_t>(std::numeric_limits<To>::max());
    const auto wide = static_cast<int64_t>(x);
    return static_cast<To>(wide < kMin ? kMin : wide > kMax ? kMax : wide);
  }
}

}  // namespace leat
