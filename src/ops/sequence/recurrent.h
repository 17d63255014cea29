// What lstm, gru and rnn have in common.
//
// They run over z = x Wx + b of all steps at once, f32[time, batch, gates · units]: the product by the inputs
// is one large matmul outside of them, as are those for its gradients, and only what has to go step by step
// is theirs. AddLstm, AddGru and AddRnn below put the whole together from x f32[batch, time, inputs].
//
// Inside, time comes first: the rows of a step lie together. The sequence that comes out is batch first.
//
// Steps at and after a row's length leave its state untouched; the sequence is zero there and no gradient
// flows. A length below 0 means 0, one above the number of steps means all. In reverse the walk goes from the
// last step to the first, so that with lengths it begins with a row's own last step.
//
// Besides the sequence and the last state the ops give what their gradients need, so that nothing is computed
// twice: `gates` (after their activation, computed in the memory of z) and the states before each step.
#pragma once

#include "ops/op.h"

namespace leat::ops {

struct RecurrentOptions {
  bool reverse = false;
  bool lengths = false;  // an input i32[batch]
  bool initial = false;  // inputs with the state before the first step; otherwise it is zero
};

struct RecurrentSizes {
  int64_t time = 0, batch = 0, units = 0;
};

class RecurrentOp : public Op {
 public:
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const RecurrentOptions options;

 protected:
  explicit RecurrentOp(RecurrentOptions o) : options(o) {}
  // Checks z[time, batch, gates · units], wh[units, gates · units] and behind `fixed` inputs lengths and
  // `states` initial states.
  RecurrentSizes Check(Types inputs, size_t fixed, int64_t gates, size_t states) const;
};

// A gradient op runs the steps backwards. `given` has a bit for each output of the op that a gradient comes
// from; these gradients are its last inputs, in the order of the outputs. It has no gradient of its own.
class RecurrentGradOp : public Op {
 public:
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;
  bool Has(size_t output) const { return (given >> output & 1) != 0; }
  // Where among `inputs` inputs the gradient by that output of the op is.
  size_t InputOf(size_t output, size_t inputs) const;

  const RecurrentOptions options;
  const unsigned given;

 protected:
  RecurrentGradOp(RecurrentOptions o, unsigned g) : options(o), given(g) {}
  // Only the gradient of the op itself makes such nodes, so the shapes fit.
  void CheckCount(Types inputs, size_t fixed) const;
};

// `kept` and behind them the gradients that there are; their bits go to *given.
std::vector<Value> WithGradients(std::vector<Value> kept, OutputGrads grads, unsigned* given);

// leftᵀ right of [time, batch, n] and [time, batch, m] as matrices of time · batch rows: [n, m].
Value SumOfProducts(Graph& graph, Value left, Value right);

// A layer's inputs. Weights are as a product from the left takes them; PyTorch's weight_ih and weight_hh and
// ONNX's W and R are these transposed, with gates in the order that each function below states.
struct RecurrentInputs {
  Value x;                       // f32[batch, time, inputs]
  Value input_weight;            // f32[inputs, gates · units]
  Value state_weight;            // f32[units, gates · units]
  std::optional<Value> bias;     // f32[gates · units]: PyTorch's bias_ih + bias_hh
  std::optional<Value> lengths;  // i32[batch]
  std::optional<Value> hidden;   // f32[batch, units], with `cell` where there is one: the state to begin with
  std::optional<Value> cell;
};

struct RecurrentOutputs {
  Value sequence;             // f32[batch, time, units]
  Value hidden;               // f32[batch, units]: after a row's last step
  std::optional<Value> cell;  // of an LSTM
};

// Long short-term memory (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000).
// Gates input, forget, cell, output: PyTorch's i, f, g, o; ONNX has i, o, f, c.
RecurrentOutputs AddLstm(Graph& graph, const RecurrentInputs& in, bool reverse = false);

// Gated recurrent unit (Cho et al. 2014). Gates reset, update, new: PyTorch's r, z, n; ONNX has z, r, h.
// `new_bias` f32[units] makes the reset gate act after the product by the state (PyTorch; linear_before_reset
// of ONNX): n = tanh(z_n + r (h Wn + new_bias)), and `bias` then has the gate's other bias (b_in). Without:
// n = tanh(z_n + (r h) Wn).
RecurrentOutputs AddGru(Graph& graph, const RecurrentInputs& in, std::optional<Value> new_bias,
                        bool reverse = false);

// h = tanh(z + h Wh), or relu.
RecurrentOutputs AddRnn(Graph& graph, const RecurrentInputs& in, bool relu, bool reverse = false);

}  // namespace leat::ops
