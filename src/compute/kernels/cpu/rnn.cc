#include "compute/kernels/cpu/recurrent.h"
#include "compute/ops/sequence/recurrent.h"

namespace leat::cpu {
namespace {

struct RnnForward {
  bool relu;
  const float *z, *wh, *h0;
  float *sequence, *hidden, *gates, *states, *panels;
};

LEAT_INLINE void RnnForwardRow(size_t lanes, bool relu, const float* sums, const float* z, float* gates,
                               float* h_next, float* y) {
#pragma GCC ivdep
  for (size_t j = 0; j < lanes; ++j) {
    const float sum = z[j] + sums[j];
    // NaN stays NaN, so that bad data is noticed.
    const float h = relu ? (sum < 0.0f ? 0.0f : sum) : Tanh(sum);
    gates[j] = h;
    h_next[j] = h;
    y[j] = h;
  }
}

LEAT_MULTIVERSION
void RunRnn(const Walk& walk, const RnnForward& t) {
  const size_t n = walk.units, size = walk.StateSize();
  PackParts<1>(t.wh, n, n, n, t.panels);
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
      SkipRow(t.gates + step * size + b * n, n);
      CopyRow(h + b * n, h_next + b * n, n);
    }
    if (!walk.AnyCounts(step)) continue;
    // A zero state contributes nothing.
    const size_t k = s == 0 && t.h0 == nullptr ? 0 : n;
    ByState<1>(walk, step, h, k, t.panels,
               [&](size_t b, size_t u, size_t lanes, const float* sums) LEAT_INLINE_LAMBDA {
                 const size_t row = step * size + b * n + u;
                 RnnForwardRow(lanes, t.relu, sums, t.z + row, t.gates + row, h_next + b * n + u,
                               t.sequence + walk.InSequence(step, b) + u);
               });
  }
}

struct RnnBackward {
  bool relu;
  const float *gates, *wh;
  GivenGrads given;
  float *dz, *dh0, *panels, *dh;
};

LEAT_INLINE void RnnBackwardRow(size_t n, bool relu, const float* gates, const float* dy, float* dz,
                                float* dh) {
#pragma GCC ivdep
  for (size_t j = 0; j < n; ++j) {
    const float h = gates[j];
    const float d = dy != nullptr ? dh[j] + dy[j] : dh[j];
    const float slope = relu ? (h > 0.0f ? 1.0f : 0.0f) : 1.0f - h * h;
    dz[j] = d * slope;
    dh[j] = 0.0f;
  }
}

LEAT_MULTIVERSION
void RunRnn(const Walk& walk, const RnnBackward& t) {
  const size_t n = walk.units, size = walk.StateSize(), padded = PaddedUnits(n);
  PackTransposed(t.wh, n, n, n, t.panels);
  BeginState(walk, t.given.last[0], t.dh, padded);
  for (size_t s = walk.time; s-- > 0;) {
    const size_t step = walk.Step(s);
    for (size_t b = 0; b < walk.batch; ++b) {
      const size_t row = step * size + b * n;
      const float* dy = t.given.sequence;
      if (dy != nullptr) dy += walk.InSequence(step, b);
      if (walk.Counts(step, b)) {
        RnnBackwardRow(n, t.relu, t.gates + row, dy, t.dz + row, t.dh + b * padded);
      } else {
        SkipRow(t.dz + row, n);
      }
    }
    // Without an initial state, its gradient is not needed.
    if ((s == 0 && !walk.initial) || !walk.AnyCounts(step)) continue;
    MultiplyAdd(t.dz + step * size, walk.batch, n, n, t.panels, padded, t.dh);
  }
  EndState(walk, t.dh, padded, t.dh0);
}

KernelPtr MakeRnn(const KernelRequest& request) {
  if (!FewEnoughUnits(request)) return nullptr;
  const auto& op = static_cast<const ops::Rnn&>(request.op);
  const Walk fixed(request, op.options, 2);
  const size_t h0 = op.options.lengths ? 3 : 2;
  return WithScratch(PackedByUnits(fixed.units, 1), 2,
                     [=, relu = op.relu](const KernelArgs& args, float* scratch) {
                       RunRnn(fixed.Of(args), RnnForward{.relu = relu,
                                                         .z = In(args, 0),
                                                         .wh = In(args, 1),
                                                         .h0 = fixed.initial ? In(args, h0) : nullptr,
                                                         .sequence = Out(args, 0),
                                                         .hidden = Out(args, 1),
                                                         .gates = Out(args, 2),
                                                         .states = Out(args, 3),
                                                         .panels = scratch});
                     });
}

KernelPtr MakeRnnGrad(const KernelRequest& request) {
  const auto& op = static_cast<const ops::RnnGrad&>(request.op);
  if (!FewEnoughUnits(request) || !KnowsGiven(op, 1)) return nullptr;
  const Walk fixed(request, op.options, 2);
  const size_t padded = PaddedUnits(fixed.units), packed = fixed.units * padded;
  return WithScratch(packed + fixed.batch * padded, 0, [=, &op](const KernelArgs& args, float* scratch) {
    RunRnn(fixed.Of(args), RnnBackward{.relu = op.relu,
                                       .gates = In(args, 0),
                                       .wh = In(args, 1),
                                       .given = GivenOf(op, 1, args),
                                       .dz = Out(args, 0),
                                       .dh0 = fixed.initial ? Out(args, 1) : nullptr,
                                       .panels = scratch,
                                       .dh = scratch + packed});
  });
}

}  // namespace

void AddRnn(graph::KernelTable& table) {
  table.Add("rnn", MakeRnn);
  table.Add("rnn_grad", MakeRnnGrad);
}

}  // namespace leat::cpu
