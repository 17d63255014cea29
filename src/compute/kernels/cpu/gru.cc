#include "compute/kernels/cpu/recurrent.h"
#include "compute/ops/sequence/recurrent.h"

namespace leat::cpu {
namespace {

struct GruForward {
  const float *z, *wh, *new_bias, *h0;  // new_bias is null if the reset comes first
  float *sequence, *hidden, *gates, *inner, *states, *panels;
};

// Reset gate after the product with the state.
LEAT_INLINE void GruForwardRow(size_t lanes, size_t n, const float* sums, const float* z, const float* bias,
                               const float* h, float* gates, float* inner, float* h_next, float* y) {
#pragma GCC ivdep
  for (size_t j = 0; j < lanes; ++j) {
    const float r = Sigmoid(z[j] + sums[j]);
    const float u = Sigmoid(z[n + j] + sums[kLanes + j]);
    const float by_state = sums[2 * kLanes + j] + bias[j];
    const float fresh = Tanh(z[2 * n + j] + r * by_state);
    const float next = fresh + u * (h[j] - fresh);
    gates[j] = r;
    gates[n + j] = u;
    gates[2 * n + j] = fresh;
    inner[j] = by_state;
    h_next[j] = next;
    y[j] = next;
  }
}

// Reset gate first: ResetRow computes the operand of the second product, NewRow uses its result.
LEAT_INLINE void ResetRow(size_t lanes, size_t n, const float* sums, const float* z, const float* h,
                          float* gates, float* inner) {
#pragma GCC ivdep
  for (size_t j = 0; j < lanes; ++j) {
    const float r = Sigmoid(z[j] + sums[j]);
    const float u = Sigmoid(z[n + j] + sums[kLanes + j]);
    gates[j] = r;
    gates[n + j] = u;
    inner[j] = r * h[j];
  }
}
LEAT_INLINE void NewRow(size_t lanes, const float* sums, const float* z, const float* u, const float* h,
                        float* gate, float* h_next, float* y) {
#pragma GCC ivdep
  for (size_t j = 0; j < lanes; ++j) {
    const float fresh = Tanh(z[j] + sums[j]);
    const float next = fresh + u[j] * (h[j] - fresh);
    gate[j] = fresh;
    h_next[j] = next;
    y[j] = next;
  }
}

LEAT_MULTIVERSION
void RunGru(const Walk& walk, const GruForward& t) {
  const size_t n = walk.units, size = walk.StateSize();
  const bool reset_first = t.new_bias == nullptr;
  float* second = t.panels + PackedByUnits(n, 2);
  if (reset_first) {
    PackParts<2>(t.wh, n, 3 * n, n, t.panels);
    PackParts<1>(t.wh + 2 * n, n, 3 * n, n, second);
  } else {
    PackParts<3>(t.wh, n, 3 * n, n, t.panels);
  }
  const auto state = [&](size_t s) LEAT_INLINE_LAMBDA {
    return s < walk.time ? t.states + walk.Step(s) * size : t.hidden;
  };
  BeginState(walk, t.h0, state(0), n);
  for (size_t s = 0; s < walk.time; ++s) {
    const size_t step = walk.Step(s);
    const float* h = t.states + step * size;
    float* h_next = state(s + 1);
    for (size_t b = 0; b < walk.batch; ++b) {
      if (walk.Counts(step, b)) continue;
      SkipRow(t.sequence + walk.InSequence(step, b), n);
      SkipRow(t.gates + 3 * (step * size + b * n), 3 * n);
      SkipRow(t.inner + step * size + b * n, n);
      CopyRow(h + b * n, h_next + b * n, n);
    }
    if (!walk.AnyCounts(step)) continue;
    // A zero state contributes nothing.
    const size_t k = s == 0 && t.h0 == nullptr ? 0 : n;
    if (!reset_first) {
      ByState<3>(walk, step, h, k, t.panels,
                 [&](size_t b, size_t u, size_t lanes, const float* sums) LEAT_INLINE_LAMBDA {
                   const size_t row = step * size + b * n, in_gates = 3 * row + u, in_state = b * n + u;
                   GruForwardRow(lanes, n, sums, t.z + in_gates, t.new_bias + u, h + in_state,
                                 t.gates + in_gates, t.inner + row + u, h_next + in_state,
                                 t.sequence + walk.InSequence(step, b) + u);
                 });
      continue;
    }
    ByState<2>(walk, step, h, k, t.panels,
               [&](size_t b, size_t u, size_t lanes, const float* sums) LEAT_INLINE_LAMBDA {
                 const size_t row = step * size + b * n, in_gates = 3 * row + u;
                 ResetRow(lanes, n, sums, t.z + in_gates, h + b * n + u, t.gates + in_gates,
                          t.inner + row + u);
               });
    ByState<1>(walk, step, t.inner + step * size, k, second,
               [&](size_t b, size_t u, size_t lanes, const float* sums) LEAT_INLINE_LAMBDA {
                 const size_t in_gates = 3 * (step * size + b * n) + u, in_state = b * n + u;
                 NewRow(lanes, sums, t.z + in_gates + 2 * n, t.gates + in_gates + n, h + in_state,
                        t.gates + in_gates + 2 * n, h_next + in_state,
                        t.sequence + walk.InSequence(step, b) + u);
               });
  }
}

struct GruBackward {
  const float *gates, *wh, *inner, *states;
  GivenGrads given;
  float *dz, *by_state, *dh0, *panels, *dh, *dinner;  // by_state is null if the reset comes first
};

// On entry, dh is the gradient of the state after the step; on return, of the state before it, without the
// part through the matrix product.
LEAT_INLINE void GruBackwardRow(size_t n, const float* gates, const float* inner, const float* h,
                                const float* dy, float* dz, float* by_state, float* dh) {
#pragma GCC ivdep
  for (size_t j = 0; j < n; ++j) {
    const float r = gates[j], u = gates[n + j], fresh = gates[2 * n + j];
    const float d = dy != nullptr ? dh[j] + dy[j] : dh[j];
    const float by_new = d * (1.0f - u) * (1.0f - fresh * fresh);
    const float by_reset = by_new * inner[j] * (r * (1.0f - r));
    const float by_update = d * (h[j] - fresh) * (u * (1.0f - u));
    dz[j] = by_reset;
    dz[n + j] = by_update;
    dz[2 * n + j] = by_new;
    by_state[j] = by_reset;
    by_state[n + j] = by_update;
    by_state[2 * n + j] = by_new * r;
    dh[j] = d * u;
  }
}

// Reset gate first: BackwardNewRow runs before the gradient passes through the product with the new gate's
// weights, BackwardResetRow after.
LEAT_INLINE void BackwardNewRow(size_t n, const float* gates, const float* h, const float* dy, float* dz,
                                float* dh, float* dinner) {
#pragma GCC ivdep
  for (size_t j = 0; j < n; ++j) {
    const float u = gates[n + j], fresh = gates[2 * n + j];
    const float d = dy != nullptr ? dh[j] + dy[j] : dh[j];
    dz[n + j] = d * (h[j] - fresh) * (u * (1.0f - u));
    dz[2 * n + j] = d * (1.0f - u) * (1.0f - fresh * fresh);
    dh[j] = d * u;
    dinner[j] = 0.0f;
  }
}
LEAT_INLINE void BackwardResetRow(size_t n, const float* gates, const float* h, const float* dinner,
                                  float* dz, float* dh) {
#pragma GCC ivdep
  for (size_t j = 0; j < n; ++j) {
    const float r = gates[j];
    dz[j] = dinner[j] * h[j] * (r * (1.0f - r));
    dh[j] += dinner[j] * r;
  }
}

LEAT_MULTIVERSION
void RunGru(const Walk& walk, const GruBackward& t) {
  const size_t n = walk.units, size = walk.StateSize(), padded = PaddedUnits(n);
  const bool reset_first = t.by_state == nullptr;
  float* second = t.panels + 2 * n * padded;
  PackTransposed(t.wh, n, reset_first ? 2 * n : 3 * n, 3 * n, t.panels);
  if (reset_first) PackTransposed(t.wh + 2 * n, n, n, 3 * n, second);
  BeginState(walk, t.given.last[0], t.dh, padded);
  for (size_t s = walk.time; s-- > 0;) {
    const size_t step = walk.Step(s);
    for (size_t b = 0; b < walk.batch; ++b) {
      const size_t row = step * size + b * n;
      const float *gates = t.gates + 3 * row, *h = t.states + row, *dy = t.given.sequence;
      float *dz = t.dz + 3 * row, *dh = t.dh + b * padded;
      if (dy != nullptr) dy += walk.InSequence(step, b);
      if (!walk.Counts(step, b)) {
        SkipRow(dz, 3 * n);
        if (!reset_first) SkipRow(t.by_state + 3 * row, 3 * n);
      } else if (reset_first) {
        BackwardNewRow(n, gates, h, dy, dz, dh, t.dinner + b * padded);
      } else {
        GruBackwardRow(n, gates, t.inner + row, h, dy, dz, t.by_state + 3 * row, dh);
      }
    }
    if (!walk.AnyCounts(step)) continue;
    if (reset_first) {
      float* dz = t.dz + 3 * step * size;
      MultiplyAdd(dz + 2 * n, walk.batch, n, 3 * n, second, padded, t.dinner);
      for (size_t b = 0; b < walk.batch; ++b) {
        if (!walk.Counts(step, b)) continue;
        const size_t row = step * size + b * n;
        BackwardResetRow(n, t.gates + 3 * row, t.states + row, t.dinner + b * padded, t.dz + 3 * row,
                         t.dh + b * padded);
      }
      MultiplyAdd(dz, walk.batch, 2 * n, 3 * n, t.panels, padded, t.dh);
    } else if (s > 0 || walk.initial) {
      // Without an initial state, its gradient is not needed.
      MultiplyAdd(t.by_state + 3 * step * size, walk.batch, 3 * n, 3 * n, t.panels, padded, t.dh);
    }
  }
  EndState(walk, t.dh, padded, t.dh0);
}

KernelPtr MakeGru(const KernelRequest& request) {
  if (!FewEnoughUnits(request)) return nullptr;
  const auto& op = static_cast<const ops::Gru&>(request.op);
  const bool before = op.linear_before_reset;
  const size_t lengths = before ? 3 : 2, h0 = lengths + (op.options.lengths ? 1 : 0);
  const Walk fixed(request, op.options, lengths);
  return WithScratch(PackedByUnits(fixed.units, 3), 2, [=](const KernelArgs& args, float* scratch) {
    RunGru(fixed.Of(args), GruForward{.z = In(args, 0),
                                      .wh = In(args, 1),
                                      .new_bias = before ? In(args, 2) : nullptr,
                                      .h0 = fixed.initial ? In(args, h0) : nullptr,
                                      .sequence = Out(args, 0),
                                      .hidden = Out(args, 1),
                                      .gates = Out(args, 2),
                                      .inner = Out(args, 3),
                                      .states = Out(args, 4),
                                      .panels = scratch});
  });
}

KernelPtr MakeGruGrad(const KernelRequest& request) {
  const auto& op = static_cast<const ops::GruGrad&>(request.op);
  if (!FewEnoughUnits(request) || !KnowsGiven(op, 1)) return nullptr;
  const Walk fixed(request, op.options, 4);
  const bool before = op.linear_before_reset;
  const size_t padded = PaddedUnits(fixed.units), packed = 3 * fixed.units * padded;
  return WithScratch(packed + 2 * fixed.batch * padded, 0, [=, &op](const KernelArgs& args, float* scratch) {
    float* dh = scratch + packed;
    float* dinner = dh + fixed.batch * padded;
    // Rows beyond their length are multiplied too, so they must be initialised.
    std::fill(dinner, dinner + fixed.batch * padded, 0.0f);
    RunGru(fixed.Of(args), GruBackward{.gates = In(args, 0),
                                       .wh = In(args, 1),
                                       .inner = In(args, 2),
                                       .states = In(args, 3),
                                       .given = GivenOf(op, 1, args),
                                       .dz = Out(args, 0),
                                       .by_state = before ? Out(args, 1) : nullptr,
                                       .dh0 = fixed.initial ? Out(args, before ? 2 : 1) : nullptr,
                                       .panels = scratch,
                                       .dh = dh,
                                       .dinner = dinner});
  });
}

}  // namespace

void AddGru(graph::KernelTable& table) {
  table.Add("gru", MakeGru);
  table.Add("gru_grad", MakeGruGrad);
}

}  // namespace leat::cpu
