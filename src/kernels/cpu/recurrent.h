// What the kernels of lstm, gru and rnn share. One step is a product of the state by packed weights with the
// cell's arithmetic behind it (panel.h), forward and backward; a kernel takes one thread.
#pragma once

#include <algorithm>

#include "base/multiversion.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/panel.h"
#include "ops/sequence/recurrent.h"

namespace leat::onednn {

KernelPtr MakeLstm(const KernelRequest& request);
KernelPtr MakeLstmGrad(const KernelRequest& request);
KernelPtr MakeGru(const KernelRequest& request);
KernelPtr MakeGruGrad(const KernelRequest& request);
KernelPtr MakeRnn(const KernelRequest& request);
KernelPtr MakeRnnGrad(const KernelRequest& request);

// The steps of a run, and which of them count for a row. Tensors by step have a row for each step and batch
// row: row = step · batch + b.
struct Walk {
  size_t time = 0, batch = 0, units = 0;
  bool reverse = false, initial = false;
  size_t lengths_input = 0;  // 0: none
  const int32_t* lengths = nullptr;

  // `fixed`: inputs before the lengths.
  Walk(const KernelRequest& request, const ops::RecurrentOptions& options, size_t fixed);
  // The same with the lengths that a run brings.
  Walk Of(const KernelArgs& args) const;

  size_t Step(size_t s) const { return reverse ? time - 1 - s : s; }
  size_t StateSize() const { return batch * units; }
  // Where the row of a step begins in [batch, time, units].
  size_t InSequence(size_t step, size_t b) const { return (b * time + step) * units; }
  bool Counts(size_t step, size_t b) const {
    return lengths == nullptr || static_cast<int64_t>(step) < static_cast<int64_t>(lengths[b]);
  }
  bool AnyCounts(size_t step) const;
};

// Whether packing is worth it and its sizes are certain to fit.
bool FewEnoughUnits(const KernelRequest& request);

// The gradients that a backward run gets from outside, null where there is none.
struct GivenGrads {
  const float* sequence = nullptr;  // [batch, time, units]
  const float* last[2] = {};        // [batch, units]
};
// Whether the op is given no other gradients than these; what is by the kept outputs is left to the next
// table.
bool KnowsGiven(const ops::RecurrentGradOp& op, size_t states);
GivenGrads GivenOf(const ops::RecurrentGradOp& op, size_t states, const KernelArgs& args);

// Floats that weights take when they are packed by units, and units rounded up to the panels of MultiplyAdd.
inline size_t PackedByUnits(size_t units, size_t gates) {
  return PanelCount(units, kLanes) * kLanes * gates * units;
}
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
// `in_place`: the output that may lie in the memory of input 0.
template <class F>
KernelPtr WithScratch(size_t scratch_floats, int in_place, F run) {
  return std::make_unique<RecurrentKernel<F>>(scratch_floats, in_place, std::move(run));
}

// A state begins with what is given, or zeros; `stride` floats from row to row.
void BeginState(const Walk& walk, const float* given, float* state, size_t stride);
// And ends where somebody asked for it.
void EndState(const Walk& walk, const float* state, size_t stride, float* to);
// Zeros for the row of a step that does not count.
void SkipRow(float* row, size_t n);
void CopyRow(const float* from, float* to, size_t n);

// f(row, first unit, units at most kLanes, their sums [N, kLanes]) for each part of a row that counts:
// a[batch, k] by the panels.
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

}  // namespace leat::onednn
