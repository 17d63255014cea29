#include <algorithm>

#include "base/multiversion.h"
#include "kernels/onednn/kernels.h"
#include "kernels/onednn/math.h"
#include "kernels/onednn/panel.h"
#include "ops/sequence/gru.h"
#include "ops/sequence/lstm.h"
#include "ops/sequence/rnn.h"

namespace leat::onednn {
namespace {

// Beyond this the packed state weights would not be worth packing, nor sizes in bytes certain to fit.
constexpr int64_t kMostUnits = 1 << 15;

struct Walk {
  size_t time = 0, batch = 0, units = 0;
  bool reverse = false, initial = false;
  size_t lengths_input = 0;  // 0: none
  const int32_t* lengths = nullptr;

  size_t Step(size_t s) const { return reverse ? time - 1 - s : s; }
  size_t StateSize() const { return batch * units; }
  bool Counts(size_t t, size_t b) const {
    return lengths == nullptr || static_cast<int64_t>(t) < static_cast<int64_t>(lengths[b]);
  }
  bool AnyCounts(size_t t) const {
    for (size_t b = 0; b < batch; ++b) {
      if (Counts(t, b)) return true;
    }
    return false;
  }
  // The same with what a run brings.
  Walk Of(const KernelArgs& args) const {
    Walk walk = *this;
    if (lengths_input != 0) walk.lengths = reinterpret_cast<const int32_t*>(args.inputs[lengths_input]);
    return walk;
  }
};

Walk WalkOf(const KernelRequest& request, const ops::RecurrentOptions& options, size_t fixed) {
  const Shape& steps = request.inputs[0].shape;
  return {.time = static_cast<size_t>(steps[0]),
          .batch = static_cast<size_t>(steps[1]),
          .units = static_cast<size_t>(request.inputs[1].shape[0]),
          .reverse = options.reverse,
          .initial = options.initial,
          .lengths_input = options.lengths ? fixed : 0};
}

bool Fits(const KernelRequest& request) {
  return request.inputs[1].shape[0] <= kMostUnits;
}

// Sizes of packed weights, in floats: for products by the state, and for those by its gradient.
size_t PanelFloats(size_t units, size_t gates) {
  return PanelCount(units, kLanes) * kLanes * gates * units;
}
size_t PaddedUnits(size_t units) {
  return PanelCount(units, 4 * kLanes) * 4 * kLanes;
}

template <class F>
class ScratchKernel final : public graph::Kernel {
 public:
  // `in_place` is the output that may lie in the memory of input 0.
  ScratchKernel(size_t floats, int in_place, F run)
      : bytes_(floats * sizeof(float)), in_place_(in_place), run_(std::move(run)) {}
  void Run(const KernelArgs& args) override { run_(args, reinterpret_cast<float*>(args.scratch)); }
  size_t scratch_bytes() const override { return bytes_; }
  int OutputInPlaceOf(int input) const override { return input == 0 ? in_place_ : -1; }

 private:
  size_t bytes_;
  int in_place_;
  F run_;
};
template <class F>
KernelPtr WithScratch(size_t floats, int in_place, F run) {
  return std::make_unique<ScratchKernel<F>>(floats, in_place, std::move(run));
}

void BeginWith(const float* initial, float* state, size_t n) {
  if (initial != nullptr) std::copy(initial, initial + n, state);
  if (initial == nullptr) std::fill(state, state + n, 0.0f);
}

// Adds a row's gradients of the sequence to those that came through the state.
struct GivenGrads {
  const float* sequence = nullptr;  // [batch, time, units]
  const float* last[2] = {};        // [batch, units]
};

// Those of the outputs that the fast kernels know: the sequence and the last states. False when there are
// more.
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

// What a row that has ended leaves behind at a step.
LEAT_INLINE void SkipRow(float* y, float* gates, size_t units, size_t gate_count) {
  if (y != nullptr) std::fill(y, y + units, 0.0f);
  std::fill(gates, gates + gate_count * units, 0.0f);
}

// f(lanes) for a panel's lanes: the common case as a constant.
template <class F>
LEAT_INLINE void WithLanes(size_t units, size_t begin, F f) {
  const size_t lanes = units - begin;
  if (lanes >= kLanes) {
    f(kLanes);
  } else {
    f(lanes);
  }
}

// The same function for each cell of the header's three: what follows is LSTM, GRU, RNN, forward and back.

struct LstmTensors {
  const float *z, *wh, *h0, *c0;
  float *sequence, *hidden, *cell, *gates, *cells, *states, *panels;
};

LEAT_INLINE void LstmRow(size_t lanes, size_t n, const float* sums, const float* z, const float* c,
                         float* gates, float* c_next, float* h_next, float* y) {
#pragma GCC ivdep
  for (size_t j = 0; j < lanes; ++j) {
    const float i = Sigmoid(z[j] + sums[j]);
    const float f = Sigmoid(z[n + j] + sums[kLanes + j]);
    const float g = Tanh(z[2 * n + j] + sums[2 * kLanes + j]);
    const float o = Sigmoid(z[3 * n + j] + sums[3 * kLanes + j]);
    const float cell = f * c[j] + i * g;
    const float h = o * Tanh(cell);
    gates[j] = i;
    gates[n + j] = f;
    gates[2 * n + j] = g;
    gates[3 * n + j] = o;
    c_next[j] = cell;
    h_next[j] = h;
    y[j] = h;
  }
}

LEAT_MULTIVERSION
void RunLstm(const Walk& walk, const LstmTensors& t, size_t at_once) {
  const size_t n = walk.units, size = walk.StateSize(), panels = PanelCount(n, kLanes);
  PackParts<4>(t.wh, n, 4 * n, n, t.panels);
  const auto state = [&](size_t s, float* all, float* last)
                         LEAT_INLINE_LAMBDA { return s < walk.time ? all + walk.Step(s) * size : last; };
  BeginWith(t.h0, state(0, t.states, t.hidden), size);
  BeginWith(t.c0, state(0, t.cells, t.cell), size);
  for (size_t s = 0; s < walk.time; ++s) {
    const size_t step = walk.Step(s);
    const float *h = t.states + step * size, *c = t.cells + step * size;
    float *h_next = state(s + 1, t.states, t.hidden), *c_next = state(s + 1, t.cells, t.cell);
    for (size_t b = 0; b < walk.batch; ++b) {
      if (walk.Counts(step, b)) continue;
      SkipRow(t.sequence + (b * walk.time + step) * n, t.gates + 4 * (step * size + b * n), n, 4);
      std::copy(h + b * n, h + (b + 1) * n, h_next + b * n);
      std::copy(c + b * n, c + (b + 1) * n, c_next + b * n);
    }
    if (!walk.AnyCounts(step)) continue;
    // A state of zeros adds nothing.
    const size_t k = s == 0 && t.h0 == nullptr ? 0 : n;
    MultiplyThen<4>(h, walk.batch, k, n, t.panels, 4 * kLanes * n, panels, at_once,
                    [&](size_t b, size_t p, const float* sums) LEAT_INLINE_LAMBDA {
                      if (!walk.Counts(step, b)) return;
                      const size_t u = p * kLanes, row = step * size + b * n;
                      WithLanes(n, u, [&](size_t lanes) LEAT_INLINE_LAMBDA {
                        LstmRow(lanes, n, sums, t.z + 4 * row + u, c + b * n + u, t.gates + 4 * row + u,
                                c_next + b * n + u, h_next + b * n + u,
                                t.sequence + (b * walk.time + step) * n + u);
                      });
                    });
  }
}

struct LstmGradTensors {
  const float *gates, *wh, *cells;
  GivenGrads given;
  float *dz, *dh0, *dc0, *panels, *dh, *dc;  // the rows of dh have PaddedUnits
};

// dh and dc are by the state after the step; what is left there is by the state before it, dh without what
// comes through the product.
LEAT_INLINE void LstmGradRow(size_t n, const float* gates, const float* cells, const float* dy, float* dz,
                             float* dh, float* dc) {
#pragma GCC ivdep
  for (size_t j = 0; j < n; ++j) {
    const float i = gates[j], f = gates[n + j], g = gates[2 * n + j], o = gates[3 * n + j];
    const float before = cells[j];
    const float tanh_c = Tanh(f * before + i * g);
    const float d = dy != nullptr ? dh[j] + dy[j] : dh[j];
    const float by_c = dc[j] + d * o * (1.0f - tanh_c * tanh_c);
    dz[j] = by_c * g * (i * (1.0f - i));
    dz[n + j] = by_c * before * (f * (1.0f - f));
    dz[2 * n + j] = by_c * i * (1.0f - g * g);
    dz[3 * n + j] = d * tanh_c * (o * (1.0f - o));
    dc[j] = by_c * f;
    dh[j] = 0.0f;
  }
}

LEAT_INLINE void BeginRows(const float* last, float* state, size_t batch, size_t n, size_t stride) {
  std::fill(state, state + batch * stride, 0.0f);
  for (size_t b = 0; last != nullptr && b < batch; ++b) {
    std::copy(last + b * n, last + (b + 1) * n, state + b * stride);
  }
}

LEAT_INLINE void CopyRows(const float* state, size_t stride, float* to, size_t batch, size_t n) {
  for (size_t b = 0; to != nullptr && b < batch; ++b) {
    std::copy(state + b * stride, state + b * stride + n, to + b * n);
  }
}

LEAT_MULTIVERSION
void RunLstmGrad(const Walk& walk, const LstmGradTensors& t, size_t at_once) {
  const size_t n = walk.units, size = walk.StateSize(), padded = PaddedUnits(n);
  PackTransposed(t.wh, n, 4 * n, 4 * n, t.panels);
  BeginRows(t.given.last[0], t.dh, walk.batch, n, padded);
  BeginRows(t.given.last[1], t.dc, walk.batch, n, n);
  for (size_t s = walk.time; s-- > 0;) {
    const size_t step = walk.Step(s);
    for (size_t b = 0; b < walk.batch; ++b) {
      const size_t row = step * size + b * n;
      if (!walk.Counts(step, b)) {
        SkipRow(nullptr, t.dz + 4 * row, n, 4);
        continue;
      }
      const float* dy = t.given.sequence;
      if (dy != nullptr) dy += (b * walk.time + step) * n;
      float *dh = t.dh + b * padded, *dc = t.dc + b * n;
      LstmGradRow(n, t.gates + 4 * row, t.cells + row, dy, t.dz + 4 * row, dh, dc);
    }
    // Nobody asks for the gradient by a state that was zero.
    if ((s == 0 && !walk.initial) || !walk.AnyCounts(step)) continue;
    MultiplyAdd(t.dz + 4 * step * size, walk.batch, 4 * n, 4 * n, t.panels, padded / (4 * kLanes), at_once,
                t.dh);
  }
  CopyRows(t.dh, padded, t.dh0, walk.batch, n);
  CopyRows(t.dc, n, t.dc0, walk.batch, n);
}

KernelPtr MakeLstm(const KernelRequest& request) {
  if (!Fits(request)) return nullptr;
  const auto& options = static_cast<const ops::Lstm&>(request.op).options;
  const Walk fixed = WalkOf(request, options, 2);
  const size_t h0 = options.lengths ? 3 : 2, at_once = RowsAtOnce<4>();
  return WithScratch(PanelFloats(fixed.units, 4), 3, [=](const KernelArgs& args, float* scratch) {
    const bool initial = fixed.initial;
    RunLstm(fixed.Of(args),
            {In(args, 0), In(args, 1), initial ? In(args, h0) : nullptr, initial ? In(args, h0 + 1) : nullptr,
             Out(args, 0), Out(args, 1), Out(args, 2), Out(args, 3), Out(args, 4), Out(args, 5), scratch},
            at_once);
  });
}

KernelPtr MakeLstmGrad(const KernelRequest& request) {
  const auto& op = static_cast<const ops::LstmGrad&>(request.op);
  if (!Fits(request) || !KnowsGiven(op, 2)) return nullptr;
  const Walk fixed = WalkOf(request, op.options, 3);
  const size_t padded = PaddedUnits(fixed.units), packed = 4 * fixed.units * padded;
  const size_t floats = packed + fixed.batch * padded + fixed.StateSize(), at_once = RowsAtOnce<4>();
  return WithScratch(floats, 0, [=, &op](const KernelArgs& args, float* scratch) {
    float* dh = scratch + packed;
    RunLstmGrad(fixed.Of(args),
                {In(args, 0), In(args, 1), In(args, 2), GivenOf(op, 2, args), Out(args, 0),
                 fixed.initial ? Out(args, 1) : nullptr, fixed.initial ? Out(args, 2) : nullptr, scratch, dh,
                 dh + fixed.batch * padded},
                at_once);
  });
}

}  // namespace

void AddRecurrent(graph::KernelTable& table) {
  table.factories["lstm"] = MakeLstm;
  table.factories["lstm_grad"] = MakeLstmGrad;
}

}  // namespace leat::onednn
