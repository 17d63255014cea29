#include "compute/optim/schedule.h"

#include <cmath>
#include <numbers>
#include <string>

#include "base/check.h"
#include "base/fields/word.h"

namespace leat::optim {
namespace {

// More than any training takes, and exact as a double.
constexpr int64_t kMaxSteps = int64_t{1} << 50;

uint64_t ReadSteps(const Config& config, std::string_view key, int64_t least) {
  config.At(key);  // fails if it is missing
  return static_cast<uint64_t>(config.Integer(key, 0, least, kMaxSteps));
}

}  // namespace

Schedule Schedule::FromConfig(const Config& config) {
  Schedule out;
  out.type = fields::FromWord<Type>(config.At("type"), "schedule");
  if (config.Has("warmup")) out.warmup = ReadSteps(config, "warmup", 0);
  switch (out.type) {
    case Type::kConstant:
      config.Allow({"type", "warmup"});
      return out;
    case Type::kStep:
    case Type::kExponential:
      config.Allow({"type", "warmup", "every", "factor"});
      out.every = ReadSteps(config, "every", 1);
      out.factor = config.Number("factor", 0.1, 0, 1);
      return out;
    case Type::kLinear:
    case Type::kCosine:
      config.Allow({"type", "warmup", "steps", "final"});
      out.steps = ReadSteps(config, "steps", 1);
      out.final = config.Number("final", 0, 0, 1);
      if (out.steps <= out.warmup) {
        config.Fail("steps is " + std::to_string(out.steps) + ", warmup is " + std::to_string(out.warmup) +
                    "; steps must be larger than warmup");
      }
      return out;
  }
  return out;
}

double ShareAt(const Schedule& schedule, uint64_t step) {
  using Type = Schedule::Type;
  LEAT_CHECK(step > 0);
  if (step <= schedule.warmup) return static_cast<double>(step) / static_cast<double>(schedule.warmup);
  const uint64_t since = step - 1 - schedule.warmup;
  if (schedule.type == Type::kConstant) return 1;
  if (schedule.type == Type::kStep) {
    return std::pow(schedule.factor, static_cast<double>(since / schedule.every));
  }
  if (schedule.type == Type::kExponential) {
    return std::pow(schedule.factor, static_cast<double>(since) / static_cast<double>(schedule.every));
  }
  const uint64_t span = schedule.steps - schedule.warmup;
  const double p = since >= span ? 1.0 : static_cast<double>(since) / static_cast<double>(span);
  const double left = schedule.type == Type::kLinear ? 1 - p : (1 + std::cos(std::numbers::pi * p)) / 2;
  return schedule.final + (1 - schedule.final) * left;
}

}  // namespace leat::optim
