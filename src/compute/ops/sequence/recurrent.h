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

}  // namespace leat::ops
