#include "optim/init.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/check.h"
#include "base/rng.h"

namespace leat::optim {

void Initialise(const InitSpec& init, uint64_t seed, std::string_view variable, uint64_t begin,
                std::span<float> out) {
  const CounterRng rng(Mix(seed, HashName(variable)));
  // A fan of 0 comes from an empty layer, which has no elements to fill.
  const double fan_in = std::max<double>(init.fan_in, 1);
  const double fan_out = std::max<double>(init.fan_out, 1);
  switch (init.kind) {
    case InitKind::kZeros:
      std::fill(out.begin(), out.end(), 0.0f);
      return;
    case InitKind::kConstant:
      std::fill(out.begin(), out.end(), init.value);
      return;
    case InitKind::kGlorotUniform: {
      const double limit = std::sqrt(6.0 / (fan_in + fan_out));
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = static_cast<float>(limit * (2.0 * rng.Uniform(begin + i) - 1.0));
      }
      return;
    }
    case InitKind::kHeNormal: {
      const double deviation = std::sqrt(2.0 / fan_in);
      for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(deviation * rng.Normal(begin + i));
      return;
    }
  }
  LEAT_CHECK(false);
}

}  // namespace leat::optim
