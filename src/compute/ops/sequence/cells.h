// Cells of recurrent layers.
#pragma once

#include "compute/ops/sequence/recurrent.h"

namespace leat::ops {

// The steps of a plain recurrent network (Elman 1990; see compute/ops/sequence/recurrent.h) and their
// gradient.

// Inputs z[time, batch, units], wh[units, units]; optional lengths[batch]; optional h0[batch, units].
//   h = tanh(z + h wh), or relu
// Outputs sequence[batch, time, units] and hidden[batch, units] after the last step. For the gradient also
// gates[time, batch, units] (h after each step; zero past a row's length) and states[time, batch, units], h
// before each step. There is no second derivative.
struct Rnn final : Named<RecurrentOp, "rnn"> {
  explicit Rnn(RecurrentOptions o = {}, bool r = false) : Named(o), relu(r) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const bool relu;
};

// Inputs gates, wh, optional lengths, and the given output gradients. Outputs dz[time, batch, units]; if
// `initial`, also dh0.
struct RnnGrad final : Named<RecurrentGradOp, "rnn_grad"> {
  RnnGrad(RecurrentOptions o, bool r, unsigned g) : Named(o, g), relu(r) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  std::string attributes() const override;

  const bool relu;
};

// The steps of a gated recurrent unit (see compute/ops/sequence/recurrent.h) and their gradient.

// Inputs z[time, batch, 3 units], wh[units, 3 units]; new_bias[units] if linear_before_reset; optional
// lengths[batch]; optional h0[batch, units].
//   r, u = sigmoid of the first two parts of z + h wh
//   n = tanh(z_n + r (h wh_n + new_bias)), or without linear_before_reset tanh(z_n + (r h) wh_n)
//   h = u h + (1 - u) n
// Outputs sequence[batch, time, units] and hidden[batch, units] after the last step. For the gradient also
// gates[time, batch, 3 units] (r, u, n; zero past a row's length), inner[time, batch, units] (h wh_n +
// new_bias, or r h; zero past the length) and states[time, batch, units], h before each step. There is no
// second derivative.
struct Gru final : Named<RecurrentOp, "gru"> {
  explicit Gru(RecurrentOptions o = {}, bool before = true) : Named(o), linear_before_reset(before) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const bool linear_before_reset;
};

// Inputs gates, wh, inner, states, optional lengths, and the given output gradients. Outputs dz[time, batch,
// 3 units]; if linear_before_reset, also the gradient of h wh + new_bias, whose last third differs from dz by
// the factor r; if `initial`, also dh0.
struct GruGrad final : Named<RecurrentGradOp, "gru_grad"> {
  GruGrad(RecurrentOptions o, bool before, unsigned g) : Named(o, g), linear_before_reset(before) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  std::string attributes() const override;

  const bool linear_before_reset;
};

// The steps of a long short-term memory (see compute/ops/sequence/recurrent.h) and their gradient.

// Inputs z[time, batch, 4 units], wh[units, 4 units]; optional lengths[batch]; optional h0[batch, units] and
// c0[batch, units].
//   i, f, o = sigmoid, g = tanh of the parts of z + h wh;  c = f c + i g;  h = o tanh(c)
// Outputs sequence[batch, time, units], hidden[batch, units] and cell[batch, units] after the last step. For
// the gradient also gates[time, batch, 4 units] (i, f, g, o; zero past a row's length), cells and
// states[time, batch, units], c and h before each step. There is no second derivative.
struct Lstm final : Named<RecurrentOp, "lstm"> {
  using Named::Named;
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Inputs gates, wh, cells, optional lengths, and the given output gradients. Outputs dz[time, batch, 4
// units]; if `initial`, also dh0 and dc0.
struct LstmGrad final : Named<RecurrentGradOp, "lstm_grad"> {
  using Named::Named;
  std::vector<TensorType> Infer(Types inputs) const override;
};

}  // namespace leat::ops
