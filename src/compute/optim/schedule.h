// Learning rate schedules: a factor on the learning rate, as a pure function of the number of updates.
//
// The number of updates is stored with each slice, and in checkpoints, so a schedule continues when a slice
// moves and has no state itself.
#pragma once

#include <cstdint>

#include "base/config/config.h"
#include "base/fields/fields.h"

namespace leat::optim {

struct Schedule {
  enum class Type : uint8_t { kConstant = 0, kStep = 1, kExponential = 2, kLinear = 3, kCosine = 4 };
  Type type = Type::kConstant;
  uint64_t warmup = 0;  // updates until the factor has risen to 1
  uint64_t every = 1;   // step, exponential: updates until it has fallen by `factor`
  double factor = 1;
  uint64_t steps = 1;  // linear, cosine: updates until it has fallen to `final`, including warm-up
  double final = 0;
  friend bool operator==(const Schedule&, const Schedule&) = default;

  // Reads a `schedule:` section: a map with `type`, `warmup` and the settings of that type. Throws
  // std::invalid_argument on any other setting.
  static Schedule FromConfig(const Config& config);
};
LEAT_ENUM(Schedule::Type, (kConstant, "constant"), (kStep, "step"), (kExponential, "exponential"),
          (kLinear, "linear"), (kCosine, "cosine"));

// The factor for update `step`, in [0, 1]; the first step is 1. During warm-up it is step / warmup (Goyal et
// al. 2017). After that, with t updates since the warm-up:
//   constant     1
//   step         factor^⌊t / every⌋
//   exponential  factor^(t / every)
//   linear       1 - (1 - final) p          p = min(1, t / (steps - warmup))
//   cosine       final + (1 - final) (1 + cos πp) / 2   (Loshchilov and Hutter 2017, without restarts)
// The last four equal PyTorch's StepLR, ExponentialLR, LinearLR and CosineAnnealingLR.
double ShareAt(const Schedule& schedule, uint64_t step);

}  // namespace leat::optim
