// The steps of a plain recurrent network (Elman 1990; see ops/sequence/recurrent.h) and their gradient.
#pragma once

#include "ops/sequence/recurrent.h"

namespace leat::ops {

// Inputs z[time, batch, units], wh[units, units]; optional lengths[batch]; optional h0[batch, units].
//   h = tanh(z + h wh), or relu
// Outputs sequence[batch, time, units] and hidden[batch, units] after the last step. For the gradient also
// gates[time, batch, units] (h after each step; zero past a row's length) and states[time, batch, units], h
// before each step. There is no second derivative.
class Rnn final : public RecurrentOp {
 public:
  explicit Rnn(RecurrentOptions o = {}, bool r = false) : RecurrentOp(o), relu(r) {}
  std::string_view kind() const override { return "rnn"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const bool relu;
};

// Inputs gates, wh, optional lengths, and the given output gradients. Outputs dz[time, batch, units]; if
// `initial`, also dh0.
class RnnGrad final : public RecurrentGradOp {
 public:
  RnnGrad(RecurrentOptions o, bool r, unsigned g) : RecurrentGradOp(o, g), relu(r) {}
  std::string_view kind() const override { return "rnn_grad"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  std::string attributes() const override;

  const bool relu;
};

}  // namespace leat::ops
