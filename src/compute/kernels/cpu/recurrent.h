// Shared parts of the lstm, gru and rnn kernels. A step, forward or backward, is a product of the state by
// packed weights (panel.h), followed by the cell's arithmetic. A kernel uses one thread.
#pragma once

#include <algorithm>

#include "base/multiversion.h"
#include "compute/kernels/cpu/kernels.h"
#include "compute/kernels/cpu/math.h"
#include "compute/kernels/cpu/panel.h"
#include "compute/ops/sequence/recurrent.h"

namespace leat::cpu {

// The steps of a run, and which of them are valid for each batch row. Tensors by step have row = step · batch
// + b.
struct Walk {
  size_t time = 0, batch = 0, units = 0;
  bool reverse = false, initial = false;
  size_t lengths_input = 0;  // 0: none
  const int32_t* lengths = nullptr;

  // `fixed`: inputs before the lengths.
  Walk(const KernelRequest& request, const ops::RecurrentOptions& options, size_t fixed);
  // The same with the lengths of a run.
  Walk Of(const KernelArgs& args) const;

  size_t Step(size_t s) const { return reverse ? time - 1 - s : s; }
  size_t StateSize() const { return batch * units; }
  // Offset of the row of a step in [batch, time, units].
  size_t InSequence(size_t step, size_t b) const { return (b * time + step) * units; }
  bool Counts(size_t step, size_t b) const {
    return lengths == nullptr || static_cast<int64_t>(step) < static_cast<int64_t>(lengths[b]);
  }
  bool AnyCounts(size_t step) const;
};

// Whether packing the weights pays off and its sizes cannot overflow.
bool FewEnoughUnits(const KernelRequest& request);

// The output gradients that a backward run gets; null if not given.
struct GivenGrads {
  const float* sequence = nullptr;  // [batch, time, units]
  const float* last[2] = {};        // [batch, units]
};
// Whether the op has no other output gradients than these. Gradients of the auxiliary outputs are not
// supported here.
bool KnowsGiven(const ops::RecurrentGradOp& op, size_t states);
GivenGrads GivenOf(const ops::RecurrentGradOp& op, size_t states, const KernelArgs& args);

// Floats needed for weights packed by units.
inline size_t PackedByUnits(size_t units, size_t gates) {
  return PanelCount(units, kLanes) * kLanes * gates * units;
}
// Units rounded up to whole panels of MultiplyAdd.
inline size_t PaddedUnits(size_t units) {
  return PanelCount(units, 4 * kLanes) * 4 * kLanes;
}

template <class F>
class RecurrentKernel final : public graph::Kernel {
 public:
  RecurrentKernel(size_t scratch_floats, int in_place, F run)
      : bytes_(scratch_floats * sizeof(float)), in_place_(in_place), run_(std::move(run)) {}
  void Run(const KernelArgs& args) override { run_(args, reinterpret_cast<float*>(args.scratch)); }
  size_t scratch_bytes() const override { return bytes_; }
  int OutputInPlaceOf(int input) const override { return input == 0 ? in_place_ : -1; }

 private:
  size_t bytes_;
  int in_place_;
  F run_;
};
// `in_place`: the output that may overwrite input 0.
template <class F>
KernelPtr WithScratch(size_t scratch_floats, int in_place, F run) {
  return std::make_unique<RecurrentKernel<F>>(scratch_floats, in_place, std::move(run));
}

// Initialises a state from `given`, or with zeros if null; rows are `stride` floats apart.
void BeginState(const Walk& walk, const float* given, float* state, size_t stride);
// Copies the final state to `to` unless that is null.
void EndState(const Walk& walk, const float* state, size_t stride, float* to);
// Writes zeros for the row of a step beyond its length.
void SkipRow(float* row, size_t n);
void CopyRow(const float* from, float* to, size_t n);

// Multiplies a[batch, k] by the panels and calls f(row, first unit, number of units <= kLanes, sums [N,
// kLanes]) for each part of each valid row.
template <size_t N, class F>
LEAT_INLINE void ByState(const Walk& walk, size_t step, const float* a, size_t k, const float* panels, F f) {
  const size_t n = walk.units;
  MultiplyThen<N>(a, walk.batch, k, n, panels, N * kLanes * n, PanelCount(n, kLanes),
                  [&](size_t b, size_t p, const float* sums) LEAT_INLINE_LAMBDA {
                    if (!walk.Counts(step, b)) return;
                    const size_t unit = p * kLanes;
                    // The common case as a constant.
                    if (n - unit >= kLanes) {
                      f(b, unit, kLanes, sums);
                    } else {
                      f(b, unit, n - unit, sums);
                    }
                  });
}

}  // namespace leat::cpu
