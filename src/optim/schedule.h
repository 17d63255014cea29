// Schedules of the learning rate: what share of it an update takes, as a pure function of how many updates
// there have been.
//
// Whoever holds a slice counts its updates and keeps the count with it (in checkpoints too), so a schedule
// goes on where it was wherever the slice goes, and needs no state of its own.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/config.h"

namespace leat::optim {

struct Schedule {
  enum class Type : uint8_t { kConstant = 0, kStep = 1, kExponential = 2, kLinear = 3, kCosine = 4 };
  Type type = Type::kConstant;
  uint64_t warmup = 0;  // updates in which the share rises to 1
  uint64_t every = 1;   // step, exponential: updates in which it falls by `factor`
  double factor = 1;
  uint64_t steps = 1;  // linear, cosine: updates until it has fallen to `final`, the warm-up's among them
  double final = 0;
  friend bool operator==(const Schedule&, const Schedule&) = default;

  // Reads a `schedule:` section: a map with `type`, `warmup` and the settings of that type; all others are
  // refused.
  static Schedule FromConfig(const Config& config);
};
std::string_view Name(Schedule::Type type);

// The share that update `step` takes (1 at the first), in [0, 1]. The first `warmup` updates take
// step / warmup (Goyal et al. 2017). From there on, with t updates since:
//   constant     1
//   step         factor^⌊t / every⌋
//   exponential  factor^(t / every)
//   linear       1 - (1 - final) p          p = min(1, t / (steps - warmup))
//   cosine       final + (1 - final) (1 + cos πp) / 2   (Loshchilov and Hutter 2017, without restarts)
// As PyTorch's StepLR, ExponentialLR, LinearLR and CosineAnnealingLR have them.
double ShareAt(const Schedule& schedule, uint64_t step);

}  // namespace leat::optim
