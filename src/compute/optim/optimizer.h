// Optimizers: updates of parameters from gradients, shared by servers and workers.
//
// An update is element-wise and a pure function of its arguments, so any part of a variable can be updated
// anywhere with the same result. Only lamb needs whole variables, for their norms. All functions are
// thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/config/config.h"
#include "base/fields/fields.h"
#include "compute/optim/init.h"
#include "compute/optim/norm.h"

namespace leat::optim {

// Learning rate schedules: a factor on the learning rate, as a pure function of the number of updates.
//
// The number of updates is stored with each slice, and in checkpoints, so a schedule continues when a slice
// moves and has no state itself.
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

enum class Kind : uint8_t {
  kSgd = 0,
  kMomentum = 1,
  kAdagrad = 2,
  kAdam = 3,
  kNesterov = 4,
  kRmsprop = 5,
  kAdamW = 6,
  kLamb = 7,
};
// In the order in which messages list them.
LEAT_ENUM(Kind, (kSgd, "sgd"), (kMomentum, "momentum"), (kNesterov, "nesterov"), (kAdagrad, "adagrad"),
          (kRmsprop, "rmsprop"), (kAdam, "adam"), (kAdamW, "adamw"), (kLamb, "lamb"));

struct OptimizerConfig {
  Kind kind = Kind::kSgd;
  float learning_rate = 0.01f;
  Schedule schedule;          // factor on the learning rate
  float weight_decay = 0;     // added to the gradient (L2); adamw and lamb: decoupled
  bool decay_vectors = true;  // false: no weight decay for variables of rank 0 and 1 (biases, gains)
  float momentum = 0.9f;      // momentum, nesterov, rmsprop (there 0 means none): decay of the velocity
  float alpha = 0.99f;        // rmsprop: decay of the mean square
  bool centered = false;      // rmsprop: divide by the variance instead of the mean square
  float beta1 = 0.9f;         // adam, adamw, lamb
  float beta2 = 0.999f;       // adam, adamw, lamb
  float epsilon = 1e-8f;      // adagrad, rmsprop, adam, adamw, lamb
  float initial_accumulator = 0.1f;  // adagrad
  Clipping clipping;                 // applied by the process that computes the gradients
  friend bool operator==(const OptimizerConfig&, const OptimizerConfig&) = default;
};

// The default settings of a kind.
OptimizerConfig Defaults(Kind kind);
// Reads the `optimizer:` section of a job: a map with `type` and the settings of that type. Throws
// std::invalid_argument on any other setting.
OptimizerConfig FromConfig(const Config& config);
std::string_view Name(Kind kind);

// The optimizer for one variable: resolves `decay_vectors`. Statistics get sgd with rate 1, no schedule and
// no decay, which subtracts their updates unchanged. Moments get the same for its lack of slots; their
// updates are merged (moments.h) instead of applied.
OptimizerConfig RuleFor(const OptimizerConfig& config, const VariableSpec& variable);

// Names of the slots, which are the optimizer state per element besides its value: {} for sgd, {"velocity"}
// for momentum and nesterov, {"accumulator"} for adagrad, {"square"} for rmsprop, with "mean" if centered and
// "velocity" if momentum > 0, {"moment1", "moment2"} for adam, adamw and lamb.
std::vector<std::string_view> SlotNames(const OptimizerConfig& config);
inline constexpr size_t kMaxSlots = 3;
// The initial value of a slot.
float InitialSlot(const OptimizerConfig& config, size_t slot);
// Whether updates need whole variables, so that variables must not be split into slices.
bool NeedsWholeVariables(const OptimizerConfig& config);

// Applies one gradient in place.
//   values, gradient, slots[i]: n elements each, not overlapping; any part of a variable, for lamb all of it
//   step: number of updates of these elements, including this one, so 1 for the first; used by the schedule
//   and by the
//         bias corrections
//   scale: additional factor on the learning rate, for staleness; usually 1
//
// With lr = learning_rate · ShareAt(schedule, step) · scale, λ = weight_decay, and d = g + λ w except for
// adamw and lamb, where d = g:
//   sgd       w -= lr d
//   momentum  v = m v + d, w -= lr v                                        Polyak 1964
//   nesterov  v = m v + d, w -= lr (d + m v)                                Sutskever et al. 2013
//   adagrad   a += d², w -= lr d / (√a + ε)                                 Duchi et al. 2011
//   rmsprop   s = α s + (1 - α) d², u = d / (√s + ε)                        Tieleman and Hinton 2012
//             centered: μ = α μ + (1 - α) d, u = d / (√(s - μ²) + ε)        Graves 2013
//             w -= lr u; with momentum v = m v + u, w -= lr v
//   adam      m = β1 m + (1 - β1) d, v = β2 v + (1 - β2) d²,                Kingma and Ba 2015
//             r = m̂ / (√v̂ + ε), m̂ = m / (1 - β1^step), v̂ = v / (1 - β2^step), w -= lr r
//   adamw     w -= lr λ w, then as adam                                     Loshchilov and Hutter 2019
//   lamb      u = r + λ w, w -= lr (‖w‖ / ‖u‖) u; the ratio is 1 where      You et al. 2020
//             either norm is 0
// All but lamb, which PyTorch lacks, are as in PyTorch with dampening 0 and lr_decay 0.
void Apply(const OptimizerConfig& config, std::span<float> values, std::span<const float> gradient,
           std::span<const std::span<float>> slots, uint64_t step, float scale);

}  // namespace leat::optim
