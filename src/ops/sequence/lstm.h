// The steps of a long short-term memory, and their gradient.
#pragma once

#include "ops/sequence/recurrent.h"

namespace leat::ops {

// Inputs z[time, batch, 4 units], wh[units, 4 units], then lengths, then h0[batch, units] and c0[batch,
// units].
//   i, f, o = sigmoid, g = tanh of the parts of z + h wh;  c = f c + i g;  h = o tanh(c)
// Outputs sequence[batch, time, units], hidden[batch, units], cell[batch, units] after the last step; and for
// the gradient gates[time, batch, 4 units] (i, f, g, o; zero past a row's length), cells and
// states[time, batch, units]: c and h before each step. One derivative: that of the gradient is not there.
class Lstm final : public RecurrentOp {
 public:
  explicit Lstm(RecurrentOptions o = {}) : RecurrentOp(o) {}
  std::string_view kind() const override { return "lstm"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Inputs gates, wh, cells, then lengths, then the given gradients. Outputs dz[time, batch, 4 units], and with
// `initial` dh0 and dc0.
class LstmGrad final : public RecurrentGradOp {
 public:
  LstmGrad(RecurrentOptions o, unsigned g) : RecurrentGradOp(o, g) {}
  std::string_view kind() const override { return "lstm_grad"; }
  std::vector<TensorType> Infer(Types inputs) const override;
};

}  // namespace leat::ops
