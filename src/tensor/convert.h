// One element's value as another type, as ops::Cast says it.
#pragma once

#include <limits>
#include <type_traits>

#include "tensor/bf16.h"

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
    // The ends as f32: the upper one may round up to what no longer fits.
    constexpr auto kLeast = static_cast<float>(std::numeric_limits<To>::lowest());
    constexpr auto kMost = static_cast<float>(std::numeric_limits<To>::max());
    if (x != x) return 0;
    if (x <= kLeast) return std::numeric_limits<To>::lowest();
    if (x >= kMost) return std::numeric_limits<To>::max();
    return static_cast<To>(x);
  } else {
    constexpr auto kLeast = static_cast<int64_t>(std::numeric_limits<To>::lowest());
    constexpr auto kMost = static_cast<int64_t>(std::numeric_limits<To>::max());
    const auto wide = static_cast<int64_t>(x);
    return static_cast<To>(wide < kLeast ? kLeast : wide > kMost ? kMost : wide);
  }
}

}  // namespace leat
