// The steps of a gated recurrent unit, and their gradient.
#pragma once

#include "ops/sequence/recurrent.h"

namespace leat::ops {

// Inputs z[time, batch, 3 units], wh[units, 3 units], with linear_before_reset new_bias[units], then lengths,
// then h0[batch, units].
//   r, u = sigmoid of the first two parts of z + h wh
//   n = tanh(z_n + r (h wh_n + new_bias)), or without linear_before_reset tanh(z_n + (r h) wh_n)
//   h = u h + (1 - u) n
// Outputs sequence[batch, time, units], hidden[batch, units] after the last step; and for the gradient
// gates[time, batch, 3 units] (r, u, n; zero past a row's length), inner[time, batch, units]
// (h wh_n + new_bias, or r h; zero past the length) and states[time, batch, units], h before each step. One
// derivative: that of the gradient is not there.
class Gru final : public RecurrentOp {
 public:
  explicit Gru(RecurrentOptions o = {}, bool before = true) : RecurrentOp(o), linear_before_reset(before) {}
  std::string_view kind() const override { return "gru"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const bool linear_before_reset;
};

// Inputs gates, wh, inner, states, then lengths, then the given gradients. Outputs dz[time, batch, 3 units];
// then with linear_before_reset the same for the product by the state, which differs in the last part by the
// factor r; then with `initial` dh0.
class GruGrad final : public RecurrentGradOp {
 public:
  GruGrad(RecurrentOptions o, bool before, unsigned g) : RecurrentGradOp(o, g), linear_before_reset(before) {}
  std::string_view kind() const override { return "gru_grad"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  std::string attributes() const override;

  const bool linear_before_reset;
};

}  // namespace leat::ops
