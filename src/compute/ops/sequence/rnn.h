// The steps of a plain recurrent network (Elman 1990; see compute/ops/sequence/recurrent.h) and their
// gradient.
#pragma once

#include "compute/ops/sequence/recurrent.h"

namespace leat::ops {

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

}  // namespace leat::ops
