#include "compute/optim/init.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/check.h"
#include "base/rng.h"

namespace leat::optim {

bool operator==(const InitSpec& a, const InitSpec& b) {
  const bool same = a.kind == b.kind && a.value == b.value && a.fan_in == b.fan_in && a.fan_out == b.fan_out;
  if (!same || a.given == b.given) return same;
  return a.given != nullptr && b.given != nullptr && *a.given == *b.given;
}

void Initialise(const InitSpec& init, uint64_t seed, std::string_view variable, uint64_t begin,
                std::span<float> out) {
  const CounterRng rng(Mix(seed, HashName(variable)));
  // Avoids a division by 0 for an empty layer, which has no elements anyway.
  const double fan_in = std::max<double>(init.fan_in, 1);
  const double fan_out = std::max<double>(init.fan_out, 1);
  const auto uniform = [&](double limit) {
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<float>(limit * (2.0 * rng.Uniform(begin + i) - 1.0));
    }
  };
  const auto normal = [&](double deviation) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(deviation * rng.Normal(begin + i));
  };
  switch (init.kind) {
    case InitKind::kZeros:
      std::fill(out.begin(), out.end(), 0.0f);
      return;
    case InitKind::kConstant:
      std::fill(out.begin(), out.end(), init.value);
      return;
    case InitKind::kGlorotUniform:
      uniform(std::sqrt(6.0 / (fan_in + fan_out)));
      return;
    case InitKind::kHeNormal:
      normal(std::sqrt(2.0 / fan_in));
      return;
    case InitKind::kNormal:
      normal(init.value);
      return;
    case InitKind::kUniform:
      uniform(init.value);
      return;
    case InitKind::kGiven:
      LEAT_CHECK(init.given != nullptr && out.size() <= init.given->size() &&
                 begin <= init.given->size() - out.size());
      std::copy_n(init.given->begin() + static_cast<std::ptrdiff_t>(begin), out.size(), out.begin());
      return;
  }
  LEAT_CHECK(false);
}

}  // namespace leat::optim
