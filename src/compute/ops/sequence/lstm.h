// The steps of a long short-term memory (see compute/ops/sequence/recurrent.h) and their gradient.
#pragma once

#include "compute/ops/sequence/recurrent.h"

namespace leat::ops {

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
