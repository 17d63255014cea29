#include "compute/kernels/cpu/recurrent.h"
#include "compute/ops/sequence/recurrent.h"

namespace leat::cpu {
namespace {

struct LstmForward {
  const float *z, *wh, *h0, *c0;
  float *sequence, *hidden, *cell, *gates, *cells, *states, *panels;
};

LEAT_INLINE void LstmForwardRow(size_t lanes, size_t n, const float* sums, const float* z, const float* c,
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
void RunLstm(const Walk& walk, const LstmForward& t) {
  const size_t n = walk.units, size = walk.StateSize();
  PackParts<4>(t.wh, n, 4 * n, n, t.panels);
  const auto state = [&](size_t s, float* all, float* last)
                         LEAT_INLINE_LAMBDA { return s < walk.time ? all + walk.Step(s) * size : last; };
  BeginState(walk, t.h0, state(0, t.states, t.hidden), n);
  BeginState(walk, t.c0, state(0, t.cells, t.cell), n);
  for (size_t s = 0; s < walk.time; ++s) {
    const size_t step = walk.Step(s);
    const float *h = t.states + step * size, *c = t.cells + step * size;
    float *h_next = state(s + 1, t.states, t.hidden), *c_next = state(s + 1, t.cells, t.cell);
    for (size_t b = 0; b < walk.batch; ++b) {
      if (walk.Counts(step, b)) continue;
      SkipRow(t.sequence + walk.InSequence(step, b), n);
      SkipRow(t.gates + 4 * (step * size + b * n), 4 * n);
      CopyRow(h + b * n, h_next + b * n, n);
      CopyRow(c + b * n, c_next + b * n, n);
    }
    if (!walk.AnyCounts(step)) continue;
    // A zero state contributes nothing.
    const size_t k = s == 0 && t.h0 == nullptr ? 0 : n;
    ByState<4>(walk, step, h, k, t.panels,
               [&](size_t b, size_t u, size_t lanes, const float* sums) LEAT_INLINE_LAMBDA {
                 const size_t row = 4 * (step * size + b * n) + u, in_state = b * n + u;
                 LstmForwardRow(lanes, n, sums, t.z + row, c + in_state, t.gates + row, c_next + in_state,
                                h_next + in_state, t.sequence + walk.InSequence(step, b) + u);
               });
  }
}

struct LstmBackward {
  const float *gates, *wh, *cells;
  GivenGrads given;
  float *dz, *dh0, *dc0, *panels, *dh, *dc;  // the rows of dh have PaddedUnits
};

// On entry, dh and dc are gradients of the state after the step; on return, of the state before it, where dh
// still lacks the part through the matrix product.
LEAT_INLINE void LstmBackwardRow(size_t n, const float* gates, const float* cells, const float* dy, float* dz,
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

LEAT_MULTIVERSION
void RunLstm(const Walk& walk, const LstmBackward& t) {
  const size_t n = walk.units, size = walk.StateSize(), padded = PaddedUnits(n);
  PackTransposed(t.wh, n, 4 * n, 4 * n, t.panels);
  BeginState(walk, t.given.last[0], t.dh, padded);
  BeginState(walk, t.given.last[1], t.dc, n);
  for (size_t s = walk.time; s-- > 0;) {
    const size_t step = walk.Step(s);
    for (size_t b = 0; b < walk.batch; ++b) {
      const size_t row = step * size + b * n;
      if (!walk.Counts(step, b)) {
        SkipRow(t.dz + 4 * row, 4 * n);
        continue;
      }
      const float *gates = t.gates + 4 * row, *cells = t.cells + row, *dy = t.given.sequence;
      float *dz = t.dz + 4 * row, *dh = t.dh + b * padded, *dc = t.dc + b * n;
      if (dy != nullptr) {
        LstmBackwardRow(n, gates, cells, dy + walk.InSequence(step, b), dz, dh, dc);
      } else {
        LstmBackwardRow(n, gates, cells, nullptr, dz, dh, dc);
      }
    }
    // Without an initial state, its gradient is not needed.
    if ((s == 0 && !walk.initial) || !walk.AnyCounts(step)) continue;
    MultiplyAdd(t.dz + 4 * step * size, walk.batch, 4 * n, 4 * n, t.panels, padded, t.dh);
  }
  EndState(walk, t.dh, padded, t.dh0);
  EndState(walk, t.dc, n, t.dc0);
}

KernelPtr MakeLstm(const KernelRequest& request) {
  if (!FewEnoughUnits(request)) return nullptr;
  const auto& options = static_cast<const ops::Lstm&>(request.op).options;
  const Walk fixed(request, options, 2);
  const size_t h0 = options.lengths ? 3 : 2;
  return WithScratch(PackedByUnits(fixed.units, 4), 3, [=](const KernelArgs& args, float* scratch) {
    const bool initial = fixed.initial;
    RunLstm(fixed.Of(args), LstmForward{.z = In(args, 0),
                                        .wh = In(args, 1),
                                        .h0 = initial ? In(args, h0) : nullptr,
                                        .c0 = initial ? In(args, h0 + 1) : nullptr,
                                        .sequence = Out(args, 0),
                                        .hidden = Out(args, 1),
                                        .cell = Out(args, 2),
                                        .gates = Out(args, 3),
                                        .cells = Out(args, 4),
                                        .states = Out(args, 5),
                                        .panels = scratch});
  });
}

KernelPtr MakeLstmGrad(const KernelRequest& request) {
  const auto& op = static_cast<const ops::LstmGrad&>(request.op);
  if (!FewEnoughUnits(request) || !KnowsGiven(op, 2)) return nullptr;
  const Walk fixed(request, op.options, 3);
  const size_t padded = PaddedUnits(fixed.units), packed = 4 * fixed.units * padded;
  const size_t floats = packed + fixed.batch * padded + fixed.StateSize();
  return WithScratch(floats, 0, [=, &op](const KernelArgs& args, float* scratch) {
    float* dh = scratch + packed;
    RunLstm(fixed.Of(args), LstmBackward{.gates = In(args, 0),
                                         .wh = In(args, 1),
                                         .cells = In(args, 2),
                                         .given = GivenOf(op, 2, args),
                                         .dz = Out(args, 0),
                                         .dh0 = fixed.initial ? Out(args, 1) : nullptr,
                                         .dc0 = fixed.initial ? Out(args, 2) : nullptr,
                                         .panels = scratch,
                                         .dh = dh,
                                         .dc = dh + fixed.batch * padded});
  });
}

}  // namespace

void AddLstm(graph::KernelTable& table) {
  table.Add("lstm", MakeLstm);
  table.Add("lstm_grad", MakeLstmGrad);
}

}  // namespace leat::cpu
