#include "compute/kernels/cpu/recurrent.h"

namespace leat::cpu {

Walk::Walk(const KernelRequest& request, const ops::RecurrentOptions& options, size_t fixed)
    : time(static_cast<size_t>(request.inputs[0].shape[0])),
      batch(static_cast<size_t>(request.inputs[0].shape[1])),
      units(static_cast<size_t>(request.inputs[1].shape[0])),
      reverse(options.reverse),
      initial(options.initial),
      lengths_input(options.lengths ? fixed : 0) {}

Walk Walk::Of(const KernelArgs& args) const {
  Walk walk = *this;
  if (lengths_input != 0) walk.lengths = reinterpret_cast<const int32_t*>(args.inputs[lengths_input]);
  return walk;
}

bool Walk::AnyCounts(size_t step) const {
  for (size_t b = 0; b < batch; ++b) {
    if (Counts(step, b)) return true;
  }
  return false;
}

bool FewEnoughUnits(const KernelRequest& request) {
  constexpr int64_t kMax = 1 << 15;
  return request.inputs[1].shape[0] <= kMax;
}

bool KnowsGiven(const ops::RecurrentGradOp& op, size_t states) {
  return (op.given >> (1 + states)) == 0;
}

GivenGrads GivenOf(const ops::RecurrentGradOp& op, size_t states, const KernelArgs& args) {
  GivenGrads given;
  const size_t inputs = args.inputs.size();
  if (op.Has(0)) given.sequence = In(args, op.InputOf(0, inputs));
  for (size_t i = 0; i < states; ++i) {
    if (op.Has(1 + i)) given.last[i] = In(args, op.InputOf(1 + i, inputs));
  }
  return given;
}

void BeginState(const Walk& walk, const float* given, float* state, size_t stride) {
  if (given == nullptr) std::fill(state, state + walk.batch * stride, 0.0f);
  for (size_t b = 0; given != nullptr && b < walk.batch; ++b) {
    std::copy(given + b * walk.units, given + (b + 1) * walk.units, state + b * stride);
    std::fill(state + b * stride + walk.units, state + (b + 1) * stride, 0.0f);
  }
}

void EndState(const Walk& walk, const float* state, size_t stride, float* to) {
  for (size_t b = 0; to != nullptr && b < walk.batch; ++b) {
    CopyRow(state + b * stride, to + b * walk.units, walk.units);
  }
}

void SkipRow(float* row, size_t n) {
  std::fill(row, row + n, 0.0f);
}

void CopyRow(const float* from, float* to, size_t n) {
  std::copy(from, from + n, to);
}

}  // namespace leat::cpu
