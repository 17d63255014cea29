#include <algorithm>
#include <cmath>

#include "compute/kernels/reference/kernels.h"
#include "compute/ops/sequence/recurrent.h"

namespace leat::reference {
namespace {

double SigmoidInDouble(double x) {
  return 1 / (1 + std::exp(-x));
}

// The order of the steps, and which of them are valid for each row.
struct Steps {
  int64_t time, batch, units;
  bool reverse;
  size_t lengths;  // index of that input, 0 for none

  // `shape`: [time, batch, ...]
  Steps(const Shape& shape, int64_t u, const ops::RecurrentOptions& options, size_t fixed)
      : time(shape[0]),
        batch(shape[1]),
        units(u),
        reverse(options.reverse),
        lengths(options.lengths ? fixed : 0) {}

  bool Counts(const KernelArgs& args, int64_t t, int64_t b) const {
    return lengths == 0 || t < reinterpret_cast<const int32_t*>(args.inputs[lengths])[b];
  }
  // f(t, b) for all steps in order, each for all rows.
  template <class F>
  void Forward(F f) const {
    for (int64_t s = 0; s < time; ++s) {
      for (int64_t b = 0; b < batch; ++b) f(reverse ? time - 1 - s : s, b);
    }
  }
  template <class F>
  void Backward(F f) const {
    for (int64_t s = time; s-- > 0;) {
      for (int64_t b = 0; b < batch; ++b) f(reverse ? time - 1 - s : s, b);
    }
  }
  // Offsets of a row of [time, batch, width] and of [batch, time, units].
  int64_t Row(int64_t t, int64_t b, int64_t width) const { return (t * batch + b) * width; }
  int64_t Out(int64_t t, int64_t b) const { return (b * time + t) * units; }
  size_t state_bytes() const { return static_cast<size_t>(batch * units) * sizeof(float); }
};

// Σ_k h[k] w[k, column]
double ByState(const float* h, const float* w, int64_t units, int64_t width, int64_t column) {
  double sum = 0;
  for (int64_t k = 0; k < units; ++k) {
    sum += static_cast<double>(h[k]) * static_cast<double>(w[k * width + column]);
  }
  return sum;
}

// Σ_j d[j] w[unit, j] for columns [begin, end)
double ByColumns(const float* d, const float* w, int64_t unit, int64_t width, int64_t begin, int64_t end) {
  double sum = 0;
  for (int64_t j = begin; j < end; ++j) {
    sum += static_cast<double>(d[j]) * static_cast<double>(w[unit * width + j]);
  }
  return sum;
}

void BeginState(const KernelArgs& args, bool initial, size_t input, float* state, size_t bytes) {
  const auto* first = initial ? In(args, input) : nullptr;
  const size_t n = bytes / sizeof(float);
  if (first != nullptr) std::copy(first, first + n, state);
  if (first == nullptr) std::fill(state, state + n, 0.0f);
}

// The output gradients that a gradient op has as inputs; 0 for those that are absent.
class Given {
 public:
  Given(const ops::RecurrentGradOp& op, size_t inputs) {
    for (size_t i = 0; i < 6; ++i) inputs_[i] = op.Has(i) ? op.InputOf(i, inputs) : 0;
  }
  double At(const KernelArgs& args, size_t output, int64_t element) const {
    return inputs_[output] == 0 ? 0 : static_cast<double>(In(args, inputs_[output])[element]);
  }

 private:
  size_t inputs_[6];
};

std::unique_ptr<graph::Kernel> LstmKernel(const KernelRequest& request) {
  const auto& op = static_cast<const ops::Lstm&>(request.op);
  const Steps steps(request.inputs[0].shape, request.inputs[1].shape[0], op.options, 2);
  const bool initial = op.options.initial;
  const size_t h0 = op.options.lengths ? 3 : 2;
  return MakeKernel([=](const KernelArgs& args) {
    const int64_t n = steps.units;
    const float *z = In(args, 0), *wh = In(args, 1);
    float *hidden = Out(args, 1), *cell = Out(args, 2);
    BeginState(args, initial, h0, hidden, steps.state_bytes());
    BeginState(args, initial, h0 + 1, cell, steps.state_bytes());
    steps.Forward([&](int64_t t, int64_t b) {
      float *h = hidden + b * n, *c = cell + b * n, *y = Out(args, 0) + steps.Out(t, b);
      float* gates = Out(args, 3) + steps.Row(t, b, 4 * n);
      std::copy(c, c + n, Out(args, 4) + steps.Row(t, b, n));
      std::copy(h, h + n, Out(args, 5) + steps.Row(t, b, n));
      if (!steps.Counts(args, t, b)) {
        std::fill(y, y + n, 0.0f);
        std::fill(gates, gates + 4 * n, 0.0f);
        return;
      }
      for (int64_t j = 0; j < 4 * n; ++j) {
        const double sum = static_cast<double>(z[steps.Row(t, b, 4 * n) + j]) + ByState(h, wh, n, 4 * n, j);
        gates[j] = static_cast<float>(j / n == 2 ? std::tanh(sum) : SigmoidInDouble(sum));
      }
      for (int64_t j = 0; j < n; ++j) {
        c[j] = gates[n + j] * c[j] + gates[j] * gates[2 * n + j];
        y[j] = h[j] = gates[3 * n + j] * std::tanh(c[j]);
      }
    });
  });
}

std::unique_ptr<graph::Kernel> LstmGradKernel(const KernelRequest& request) {
  const auto& op = static_cast<const ops::LstmGrad&>(request.op);
  const Steps steps(request.inputs[0].shape, request.inputs[1].shape[0], op.options, 3);
  const Given given(op, request.inputs.size());
  // Without an initial state, its gradients are not outputs and go to scratch memory.
  return MakeScratchKernel(2 * steps.state_bytes(), [=,
                                                     initial = op.options.initial](const KernelArgs& args) {
    const int64_t n = steps.units;
    const float *gates = In(args, 0), *wh = In(args, 1), *cells = In(args, 2);
    float* scratch = reinterpret_cast<float*>(args.scratch);
    float* dhidden = initial ? Out(args, 1) : scratch;
    float* dcell = initial ? Out(args, 2) : scratch + steps.batch * n;
    for (int64_t i = 0; i < steps.batch * n; ++i) {
      dhidden[i] = static_cast<float>(given.At(args, 1, i));
      dcell[i] = static_cast<float>(given.At(args, 2, i));
    }
    steps.Backward([&](int64_t t, int64_t b) {
      float *dh = dhidden + b * n, *dc = dcell + b * n;
      const int64_t row = steps.Row(t, b, n);
      float* dz = Out(args, 0) + 4 * row;
      const bool counts = steps.Counts(args, t, b);
      if (!counts) std::fill(dz, dz + 4 * n, 0.0f);
      for (int64_t j = 0; counts && j < n; ++j) {
        double g[4], dg[4];
        for (int64_t k = 0; k < 4; ++k) {
          g[k] = static_cast<double>(gates[4 * row + k * n + j]);
          dg[k] = given.At(args, 3, 4 * row + k * n + j);
        }
        const double before = static_cast<double>(cells[row + j]);
        const double tanh_c = std::tanh(g[1] * before + g[0] * g[2]);
        const double d = static_cast<double>(dh[j]) + given.At(args, 0, steps.Out(t, b) + j);
        const double dcj = static_cast<double>(dc[j]) + d * g[3] * (1 - tanh_c * tanh_c);
        dz[j] = static_cast<float>((dg[0] + dcj * g[2]) * g[0] * (1 - g[0]));
        dz[n + j] = static_cast<float>((dg[1] + dcj * before) * g[1] * (1 - g[1]));
        dz[2 * n + j] = static_cast<float>((dg[2] + dcj * g[0]) * (1 - g[2] * g[2]));
        dz[3 * n + j] = static_cast<float>((dg[3] + d * tanh_c) * g[3] * (1 - g[3]));
        dc[j] = static_cast<float>(dcj * g[1]);
      }
      for (int64_t j = 0; j < n; ++j) {
        const double through = counts ? ByColumns(dz, wh, j, 4 * n, 0, 4 * n) : static_cast<double>(dh[j]);
        dh[j] = static_cast<float>(through + given.At(args, 5, row + j));
        dc[j] += static_cast<float>(given.At(args, 4, row + j));
      }
    });
  });
}

std::unique_ptr<graph::Kernel> GruKernel(const KernelRequest& request) {
  const auto& op = static_cast<const ops::Gru&>(request.op);
  const bool before = op.linear_before_reset, initial = op.options.initial;
  const size_t fixed = before ? 3 : 2;
  const Steps steps(request.inputs[0].shape, request.inputs[1].shape[0], op.options, fixed);
  const size_t h0 = fixed + (op.options.lengths ? 1 : 0);
  return MakeKernel([=](const KernelArgs& args) {
    const int64_t n = steps.units;
    const float* wh = In(args, 1);
    BeginState(args, initial, h0, Out(args, 1), steps.state_bytes());
    steps.Forward([&](int64_t t, int64_t b) {
      const int64_t row = steps.Row(t, b, n);
      const float* z = In(args, 0) + 3 * row;
      float *h = Out(args, 1) + b * n, *y = Out(args, 0) + steps.Out(t, b);
      float *gates = Out(args, 2) + 3 * row, *inner = Out(args, 3) + row;
      std::copy(h, h + n, Out(args, 4) + row);
      if (!steps.Counts(args, t, b)) {
        std::fill(y, y + n, 0.0f);
        std::fill(gates, gates + 3 * n, 0.0f);
        std::fill(inner, inner + n, 0.0f);
        return;
      }
      for (int64_t j = 0; j < 2 * n; ++j) {
        gates[j] =
            static_cast<float>(SigmoidInDouble(static_cast<double>(z[j]) + ByState(h, wh, n, 3 * n, j)));
      }
      for (int64_t j = 0; j < n; ++j) {
        inner[j] = before ? static_cast<float>(ByState(h, wh, n, 3 * n, 2 * n + j)) + In(args, 2)[j]
                          : gates[j] * h[j];
      }
      for (int64_t j = 0; j < n; ++j) {
        const double by_state = before ? static_cast<double>(gates[j]) * static_cast<double>(inner[j])
                                       : ByState(inner, wh, n, 3 * n, 2 * n + j);
        gates[2 * n + j] = static_cast<float>(std::tanh(static_cast<double>(z[2 * n + j]) + by_state));
      }
      for (int64_t j = 0; j < n; ++j) {
        const float u = gates[n + j];
        y[j] = h[j] = u * h[j] + (1 - u) * gates[2 * n + j];
      }
    });
  });
}

std::unique_ptr<graph::Kernel> GruGradKernel(const KernelRequest& request) {
  const auto& op = static_cast<const ops::GruGrad&>(request.op);
  const bool before = op.linear_before_reset, initial = op.options.initial;
  const Steps steps(request.inputs[0].shape, request.inputs[1].shape[0], op.options, 4);
  const Given given(op, request.inputs.size());
  return MakeScratchKernel(steps.state_bytes(), [=](const KernelArgs& args) {
    const int64_t n = steps.units;
    const float* wh = In(args, 1);
    float* dhidden = initial ? Out(args, before ? 2 : 1) : reinterpret_cast<float*>(args.scratch);
    for (int64_t i = 0; i < steps.batch * n; ++i) dhidden[i] = static_cast<float>(given.At(args, 1, i));
    steps.Backward([&](int64_t t, int64_t b) {
      const int64_t row = steps.Row(t, b, n);
      const float *gates = In(args, 0) + 3 * row, *inner = In(args, 2) + row, *h = In(args, 3) + row;
      float *dh = dhidden + b * n, *dz = Out(args, 0) + 3 * row;
      // The gradient of the product with the state; it is dz itself if the reset comes first.
      float* ds = before ? Out(args, 1) + 3 * row : dz;
      if (!steps.Counts(args, t, b)) {
        std::fill(dz, dz + 3 * n, 0.0f);
        std::fill(ds, ds + 3 * n, 0.0f);
        for (int64_t j = 0; j < n; ++j) dh[j] += static_cast<float>(given.At(args, 4, row + j));
        return;
      }
      for (int64_t j = 0; j < n; ++j) {
        const double u = static_cast<double>(gates[n + j]), new_h = static_cast<double>(gates[2 * n + j]);
        const double d = static_cast<double>(dh[j]) + given.At(args, 0, steps.Out(t, b) + j);
        const double dn = d * (1 - u) + given.At(args, 2, 3 * row + 2 * n + j);
        const double du = d * (static_cast<double>(h[j]) - new_h) + given.At(args, 2, 3 * row + n + j);
        dz[2 * n + j] = static_cast<float>(dn * (1 - new_h * new_h));
        dz[n + j] = static_cast<float>(du * u * (1 - u));
        dh[j] = static_cast<float>(d * u);
      }
      for (int64_t j = 0; j < n; ++j) {
        const double r = static_cast<double>(gates[j]), dinner = given.At(args, 3, row + j);
        double dr = given.At(args, 2, 3 * row + j);
        if (before) {
          ds[2 * n + j] = static_cast<float>(static_cast<double>(dz[2 * n + j]) * r + dinner);
          dr += static_cast<double>(dz[2 * n + j]) * static_cast<double>(inner[j]);
        } else {
          const double through = ByColumns(dz, wh, j, 3 * n, 2 * n, 3 * n) + dinner;
          dr += through * static_cast<double>(h[j]);
          dh[j] += static_cast<float>(through * r);
        }
        dz[j] = static_cast<float>(dr * r * (1 - r));
      }
      std::copy(dz, dz + 2 * n, ds);
      for (int64_t j = 0; j < n; ++j) {
        dh[j] += static_cast<float>(ByColumns(ds, wh, j, 3 * n, 0, before ? 3 * n : 2 * n) +
                                    given.At(args, 4, row + j));
      }
    });
  });
}

std::unique_ptr<graph::Kernel> RnnKernel(const KernelRequest& request) {
  const auto& op = static_cast<const ops::Rnn&>(request.op);
  const Steps steps(request.inputs[0].shape, request.inputs[1].shape[0], op.options, 2);
  const size_t h0 = op.options.lengths ? 3 : 2;
  return MakeKernel([=, relu = op.relu, initial = op.options.initial](const KernelArgs& args) {
    const int64_t n = steps.units;
    BeginState(args, initial, h0, Out(args, 1), steps.state_bytes());
    steps.Forward([&](int64_t t, int64_t b) {
      const int64_t row = steps.Row(t, b, n);
      float *h = Out(args, 1) + b * n, *y = Out(args, 0) + steps.Out(t, b);
      float* gates = Out(args, 2) + row;
      std::copy(h, h + n, Out(args, 3) + row);
      const bool counts = steps.Counts(args, t, b);
      for (int64_t j = 0; j < n; ++j) {
        const double sum = static_cast<double>(In(args, 0)[row + j]) + ByState(h, In(args, 1), n, n, j);
        const double value = relu ? (sum < 0 ? 0 : sum) : std::tanh(sum);
        y[j] = gates[j] = counts ? static_cast<float>(value) : 0.0f;
      }
      if (counts) std::copy(y, y + n, h);
    });
  });
}

std::unique_ptr<graph::Kernel> RnnGradKernel(const KernelRequest& request) {
  const auto& op = static_cast<const ops::RnnGrad&>(request.op);
  const Steps steps(request.inputs[0].shape, request.inputs[1].shape[0], op.options, 2);
  const Given given(op, request.inputs.size());
  const bool relu = op.relu, initial = op.options.initial;
  return MakeScratchKernel(steps.state_bytes(), [=](const KernelArgs& args) {
    const int64_t n = steps.units;
    float* dhidden = initial ? Out(args, 1) : reinterpret_cast<float*>(args.scratch);
    for (int64_t i = 0; i < steps.batch * n; ++i) dhidden[i] = static_cast<float>(given.At(args, 1, i));
    steps.Backward([&](int64_t t, int64_t b) {
      const int64_t row = steps.Row(t, b, n);
      float *dh = dhidden + b * n, *dz = Out(args, 0) + row;
      const bool counts = steps.Counts(args, t, b);
      for (int64_t j = 0; j < n; ++j) {
        const double h = static_cast<double>(In(args, 0)[row + j]);
        const double d =
            static_cast<double>(dh[j]) + given.At(args, 0, steps.Out(t, b) + j) + given.At(args, 2, row + j);
        const double slope = relu ? (h > 0 ? 1 : 0) : 1 - h * h;
        dz[j] = counts ? static_cast<float>(d * slope) : 0.0f;
      }
      for (int64_t j = 0; j < n; ++j) {
        const double through = counts ? ByColumns(dz, In(args, 1), j, n, 0, n) : static_cast<double>(dh[j]);
        dh[j] = static_cast<float>(through + given.At(args, 3, row + j));
      }
    });
  });
}

std::unique_ptr<graph::Kernel> SequenceLengthsKernel(const KernelRequest& request) {
  const int32_t padding = static_cast<const ops::SequenceLengths&>(request.op).padding;
  const int64_t batch = request.inputs[0].shape[0], time = request.inputs[0].shape[1];
  return MakeKernel([=](const KernelArgs& args) {
    const auto* ids = reinterpret_cast<const int32_t*>(args.inputs[0]);
    auto* lengths = reinterpret_cast<int32_t*>(args.outputs[0]);
    for (int64_t b = 0; b < batch; ++b) {
      int64_t length = time;
      while (length > 0 && ids[b * time + length - 1] == padding) --length;
      lengths[b] = static_cast<int32_t>(length);
    }
  });
}

}  // namespace

void AddRecurrent(graph::KernelTable& table) {
  table.Add("lstm", LstmKernel);
  table.Add("lstm_grad", LstmGradKernel);
  table.Add("gru", GruKernel);
  table.Add("gru_grad", GruGradKernel);
  table.Add("rnn", RnnKernel);
  table.Add("rnn_grad", RnnGradKernel);
  table.Add("sequence_lengths", SequenceLengthsKernel);
}

}  // namespace leat::reference
