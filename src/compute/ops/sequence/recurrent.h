// Shared parts of the recurrent layers LSTM, GRU and RNN.
//
// The ops Lstm, Gru and Rnn do only what must run step by step. Their input is z = x Wx + b, f32[time, batch,
// gates · units], computed by one matmul for all steps; the gradients of x and Wx are matmuls too. AddLstm,
// AddGru and AddRnn below build the whole layer from x f32[batch, time, inputs].
//
// z has time as its first axis, so that the rows of a step are contiguous. The output sequence has batch
// first.
//
// Steps at or after a row's length do not change its state; the sequence is zero there and no gradient flows.
// Lengths are clamped to [0, time]. With `reverse`, steps run from last to first; with lengths, each row
// starts at its own last step.
//
// Besides the sequence and the last state, the ops return what their gradients need: `gates`, the gate values
// after activation, which overwrite z, and the states before each step.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

struct RecurrentOptions {
  bool reverse = false;
  bool lengths = false;  // there is an input of lengths, i32[batch]
  bool initial = false;  // the initial state is an input; otherwise it is zero
};

struct RecurrentSizes {
  int64_t time = 0, batch = 0, units = 0;
};

class RecurrentOp : public Op {
 public:
  explicit RecurrentOp(RecurrentOptions o = {}) : options(o) {}
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const RecurrentOptions options;

 protected:
  // Checks z[time, batch, gates · units] and wh[units, gates · units] and, after `fixed` inputs, the optional
  // lengths and `states` initial states. Throws std::invalid_argument.
  RecurrentSizes Check(Types inputs, size_t fixed, int64_t gates, size_t states) const;
};

// Base of the gradient ops, which run the steps backwards. Bit i of `given` is set if the loss depends on
// output i; the gradients of these outputs are the last inputs, in order. Gradient ops have no gradient
// themselves.
class RecurrentGradOp : public Op {
 public:
  RecurrentGradOp(RecurrentOptions o, unsigned g) : options(o), given(g) {}
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;
  bool Has(size_t output) const { return (given >> output & 1) != 0; }
  // The index, among `inputs` inputs, of the gradient of that output.
  size_t InputOf(size_t output, size_t inputs) const;

  const RecurrentOptions options;
  const unsigned given;

 protected:
  // Checks only the count: these nodes are created by Gradient of the forward op, with matching shapes.
  void CheckCount(Types inputs, size_t fixed) const;
};

// Appends the gradients that exist to `kept` and sets their bits in *given.
std::vector<Value> WithGradients(std::vector<Value> kept, OutputGrads grads, unsigned* given);

// leftᵀ right for left[time, batch, n] and right[time, batch, m], as matrices of time · batch rows. Output
// [n, m].
Value SumOfProducts(Graph& graph, Value left, Value right);

// Inputs of a layer. The weights are the transposes of PyTorch's weight_ih and weight_hh and of ONNX's W and
// R. Each function below states its order of gates.
struct RecurrentInputs {
  Value x;                       // f32[batch, time, inputs]
  Value input_weight;            // f32[inputs, gates · units]
  Value state_weight;            // f32[units, gates · units]
  std::optional<Value> bias;     // f32[gates · units]: PyTorch's bias_ih + bias_hh
  std::optional<Value> lengths;  // i32[batch]
  std::optional<Value> hidden;   // f32[batch, units]: initial state; an LSTM also needs `cell`
  std::optional<Value> cell;
};

struct RecurrentOutputs {
  Value sequence;             // f32[batch, time, units]
  Value hidden;               // f32[batch, units]: after a row's last step
  std::optional<Value> cell;  // LSTM only
};

// Long short-term memory (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000).
// Gate order: input, forget, cell, output, as PyTorch's i, f, g, o. ONNX has i, o, f, c.
RecurrentOutputs AddLstm(Graph& graph, const RecurrentInputs& in, bool reverse = false);

// Gated recurrent unit (Cho et al. 2014). Gate order: reset, update, new, as PyTorch's r, z, n. ONNX has z,
// r, h. With `new_bias` f32[units], the reset gate is applied after the product, as in PyTorch and with
// ONNX's linear_before_reset: n = tanh(z_n + r (h Wn + new_bias)); `bias` then holds the input bias b_in of
// that gate. Without it: n = tanh(z_n + (r h) Wn).
RecurrentOutputs AddGru(Graph& graph, const RecurrentInputs& in, std::optional<Value> new_bias,
                        bool reverse = false);

// Plain recurrent layer (Elman 1990): h = tanh(z + h Wh), or relu instead of tanh.
RecurrentOutputs AddRnn(Graph& graph, const RecurrentInputs& in, bool relu, bool reverse = false);

// Lengths of padded sequences.

// ids i32[batch, time] → i32[batch]: the length of each row without the trailing ids equal to `padding`.
struct SequenceLengths final : Named<WithoutGradient<Op>, "sequence_lengths"> {
  explicit SequenceLengths(int32_t p) : padding(p) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  std::string attributes() const override { return "padding=" + std::to_string(padding); }

  const int32_t padding;
};

// The steps of a plain recurrent network (Elman 1990) and their gradient.

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

// The steps of a gated recurrent unit and their gradient.

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

// The steps of a long short-term memory and their gradient.

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
