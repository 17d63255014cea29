#include "compute/ops/normalize/normalize.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/rng.h"
#include "compute/ops/activation/activation.h"
#include "compute/ops/elementwise/elementwise.h"
#include "compute/ops/op.h"
#include "compute/ops/shape/reduce.h"
#include "compute/ops/shape/shape.h"

namespace leat::ops {

namespace {

Value MeanOfRows(Graph& graph, Value x) {
  return graph.Make<ReduceMean>({x}, std::vector<int>{-1}, true);
}

// The shape of per-row values: x without its last axis.
Shape RowShape(const Shape& x) {
  return Shape(x.sizes().first(x.rank() - 1));
}

// Per-row values with a last axis of size 1, to broadcast against x.
Value AsColumn(Graph& graph, Value v) {
  const Shape& shape = graph.shape(v);
  std::vector<int64_t> sizes(shape.sizes().begin(), shape.sizes().end());
  sizes.push_back(1);
  return graph.Make<Reshape>({v}, Shape(sizes));
}

Value InverseDeviation(Graph& graph, Value variance, float epsilon) {
  const Value deviation = graph.Make<Sqrt>({graph.Make<Scale>({variance}, 1.0f, epsilon)});
  const Value one = graph.Make<Constant>({}, 1.0f);
  return graph.Make<Div>({one, deviation});
}

// y, m and s in plain ops.
std::vector<Value> ComposeLayerNorm(Graph& graph, const std::vector<Value>& inputs, float epsilon) {
  const Value x = inputs[0], scale = inputs[1], offset = inputs[2];
  const Shape rows = RowShape(graph.shape(x));
  const Value mean = MeanOfRows(graph, x);
  const Value centred = graph.Make<Sub>({x, mean});
  const Value variance = MeanOfRows(graph, graph.Make<Square>({centred}));
  const Value inverse = InverseDeviation(graph, variance, epsilon);
  const Value y = graph.Make<Add>({graph.Make<Mul>({graph.Make<Mul>({centred, inverse}), scale}), offset});
  return {y, graph.Make<Reshape>({mean}, rows), graph.Make<Reshape>({inverse}, rows)};
}

// dx, dscale and doffset in plain ops.
std::vector<Value> ComposeLayerNormGrad(Graph& graph, const std::vector<Value>& inputs) {
  const Value x = inputs[0], scale = inputs[1], dy = inputs[4];
  const Value mean = AsColumn(graph, inputs[2]), inverse = AsColumn(graph, inputs[3]);
  const Value normal = graph.Make<Mul>({graph.Make<Sub>({x, mean}), inverse});
  const Value scaled = graph.Make<Mul>({dy, scale});
  const Value along = MeanOfRows(graph, graph.Make<Mul>({scaled, normal}));
  const Value rest = graph.Make<Sub>(
      {graph.Make<Sub>({scaled, MeanOfRows(graph, scaled)}), graph.Make<Mul>({normal, along})});
  const Shape shape = graph.shape(scale);
  return {graph.Make<Mul>({rest, inverse}), ReduceToShape(graph, graph.Make<Mul>({dy, normal}), shape),
          ReduceToShape(graph, dy, shape)};
}

}  // namespace

void EpsilonOp::CheckEpsilon() const {
  if (!(epsilon > 0)) throw std::invalid_argument(attributes() + "; must be above 0");
}

std::vector<TensorType> LayerNorm::Infer(Types inputs) const {
  graph::CheckF32(inputs, 3);
  const Shape& x = inputs[0].shape;
  const int64_t n = x.rank() == 0 ? 0 : x[x.rank() - 1];
  if (n == 0) throw std::invalid_argument("x" + x.ToString() + " has no elements along its last axis");
  for (size_t i : {1, 2}) {
    if (inputs[i].shape == Shape{n}) continue;
    throw std::invalid_argument(std::string(i == 1 ? "scale" : "offset") + inputs[i].shape.ToString() +
                                " must be " + Shape{n}.ToString() + ", as long as the last axis of x" +
                                x.ToString());
  }
  CheckEpsilon();
  const Shape rows = RowShape(x);
  return {inputs[0], {DType::kF32, rows}, {DType::kF32, rows}};
}

InputGrads LayerNorm::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  if (output_grads[1] || output_grads[2]) {
    return ComposedGradient(graph, node, output_grads, [this](Graph& g, const std::vector<Value>& inputs) {
      return ComposeLayerNorm(g, inputs, epsilon);
    });
  }
  const Value dx = graph.Make<LayerNormGrad>(
      {node.inputs[0], node.inputs[1], Value{node.index, 1}, Value{node.index, 2}, *output_grads[0]});
  return {dx, Value{dx.node, 1}, Value{dx.node, 2}};
}

double LayerNorm::flops(Types inputs, Types) const {
  return 6.0 * static_cast<double>(inputs[0].shape.elements());
}

std::vector<TensorType> LayerNormGrad::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 5);
  const std::vector<TensorType> forward = LayerNorm().Infer(std::vector{inputs[0], inputs[1], inputs[1]});
  for (size_t i : {2, 3, 4}) {
    const TensorType& expected = i == 4 ? inputs[0] : forward[i - 1];
    if (inputs[i] == expected) continue;
    throw std::invalid_argument("input " + std::to_string(i) + " is " + inputs[i].ToString() + "; must be " +
                                expected.ToString());
  }
  return {inputs[0], inputs[1], inputs[1]};
}

InputGrads LayerNormGrad::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return ComposedGradient(graph, node, output_grads, ComposeLayerNormGrad);
}

double LayerNormGrad::flops(Types inputs, Types) const {
  return 12.0 * static_cast<double>(inputs[0].shape.elements());
}

namespace {

// The row weights in forms that broadcast against x.
struct RowWeights {
  Value each;    // [batch, 1, ...]: 0 for padding
  Value shares;  // weight of each element of a channel; they sum to 1
  Value counts;  // 1 for rows that count, 0 for padding
};

RowWeights WeightsOf(Graph& graph, Value weights, const Shape& x) {
  std::vector<int64_t> sizes(x.rank(), 1);
  sizes[0] = x[0];
  RowWeights w;
  w.each = graph.Make<Reshape>({graph.Make<Relu>({weights})}, Shape(sizes));
  w.counts = graph.Make<Sign>({w.each});
  const int64_t channels = x[x.rank() - 1];
  const auto places = static_cast<float>(x[0] * channels == 0 ? 0 : x.elements() / (x[0] * channels));
  const Value sum = graph.Make<Scale>({graph.Make<ReduceSum>({w.each})}, places);
  // If all rows are padding, divide 0 by 1.
  const Value none = graph.Make<Scale>({graph.Make<Sign>({sum})}, -1.0f, 1.0f);
  w.shares = graph.Make<Div>({w.each, graph.Make<Add>({sum, none})});
  return w;
}

// y, mean and variance in plain ops.
std::vector<Value> ComposeBatchNorm(Graph& graph, const std::vector<Value>& inputs, float epsilon) {
  const Value x = inputs[0], scale = inputs[1], offset = inputs[2];
  const RowWeights w = WeightsOf(graph, inputs[3], graph.shape(x));
  const Shape channels = graph.shape(scale);
  const Value mean = ReduceToShape(graph, graph.Make<Mul>({x, w.shares}), channels);
  const Value centred = graph.Make<Sub>({x, mean});
  const Value variance =
      ReduceToShape(graph, graph.Make<Mul>({graph.Make<Square>({centred}), w.shares}), channels);
  const Value factor = graph.Make<Mul>({scale, InverseDeviation(graph, variance, epsilon)});
  const Value y = graph.Make<Add>({graph.Make<Mul>({centred, factor}), offset});
  return {graph.Make<Mul>({y, w.counts}), mean, variance};
}

// dx, dscale and doffset in plain ops.
std::vector<Value> ComposeBatchNormGrad(Graph& graph, const std::vector<Value>& inputs, float epsilon) {
  const Value x = inputs[0], scale = inputs[1], mean = inputs[3], variance = inputs[4];
  const RowWeights w = WeightsOf(graph, inputs[2], graph.shape(x));
  const Value dy = graph.Make<Mul>({inputs[5], w.counts});
  const Shape channels = graph.shape(scale);
  const Value inverse = InverseDeviation(graph, variance, epsilon);
  const Value normal = graph.Make<Mul>({graph.Make<Sub>({x, mean}), inverse});
  const Value dscale = ReduceToShape(graph, graph.Make<Mul>({dy, normal}), channels);
  const Value doffset = ReduceToShape(graph, dy, channels);
  // The part of the gradient that flows through mean and variance.
  const Value common = graph.Make<Add>({doffset, graph.Make<Mul>({normal, dscale})});
  const Value rest = graph.Make<Sub>({dy, graph.Make<Mul>({common, w.shares})});
  return {graph.Make<Mul>({rest, graph.Make<Mul>({scale, inverse})}), dscale, doffset};
}

void CheckInputs(const TensorType& x, const TensorType& weights, Types channels) {
  const Shape& shape = x.shape;
  if (shape.rank() < 2) {
    throw std::invalid_argument("x" + shape.ToString() + " must be [batch, ..., channels]");
  }
  if (weights.shape != Shape{shape[0]}) {
    throw std::invalid_argument("weights" + weights.shape.ToString() + " must have one element per row of x" +
                                shape.ToString());
  }
  const Shape expected{shape[shape.rank() - 1]};
  for (const TensorType& type : channels) {
    if (type.shape == expected) continue;
    throw std::invalid_argument(type.shape.ToString() + " must be " + expected.ToString() +
                                ", one element per channel of x" + shape.ToString());
  }
}

}  // namespace

std::vector<TensorType> BatchNorm::Infer(Types inputs) const {
  graph::CheckF32(inputs, 4);
  CheckInputs(inputs[0], inputs[3], inputs.subspan(1, 2));
  CheckEpsilon();
  return {inputs[0], inputs[1], inputs[1]};
}

InputGrads BatchNorm::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  if (output_grads[1] || output_grads[2]) {
    InputGrads grads = ComposedGradient(
        graph, node, output_grads,
        [this](Graph& g, const std::vector<Value>& inputs) { return ComposeBatchNorm(g, inputs, epsilon); });
    grads[3].reset();
    return grads;
  }
  const Value dx = graph.Make<BatchNormGrad>({node.inputs[0], node.inputs[1], node.inputs[3],
                                              Value{node.index, 1}, Value{node.index, 2}, *output_grads[0]},
                                             epsilon);
  return {dx, Value{dx.node, 1}, Value{dx.node, 2}, std::nullopt};
}

double BatchNorm::flops(Types inputs, Types) const {
  return 8.0 * static_cast<double>(inputs[0].shape.elements());
}

std::vector<TensorType> BatchNormGrad::Infer(Types inputs) const {
  graph::CheckF32(inputs, 6);
  CheckInputs(inputs[0], inputs[2], std::vector{inputs[1], inputs[3], inputs[4]});
  CheckEpsilon();
  if (inputs[5] != inputs[0]) {
    throw std::invalid_argument("dy" + inputs[5].shape.ToString() + " must be like x" +
                                inputs[0].shape.ToString());
  }
  return {inputs[0], inputs[1], inputs[1]};
}

InputGrads BatchNormGrad::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  InputGrads grads =
      ComposedGradient(graph, node, output_grads, [this](Graph& g, const std::vector<Value>& inputs) {
        return ComposeBatchNormGrad(g, inputs, epsilon);
      });
  grads[2].reset();
  return grads;
}

double BatchNormGrad::flops(Types inputs, Types) const {
  return 12.0 * static_cast<double>(inputs[0].shape.elements());
}

namespace {

TensorType MomentsOf(const TensorType& columns) {
  if (columns.dtype != DType::kI32 || columns.shape.rank() != 1)
    throw std::invalid_argument("columns are " + columns.ToString() + "; must be a list of i32");
  return {DType::kF32, Shape{3, columns.shape[0], 2}};
}

}  // namespace

std::vector<TensorType> Moments::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 3);
  graph::CheckF32(inputs.first(2));
  const Shape& x = inputs[0].shape;
  if (x.rank() == 0) throw std::invalid_argument("x" + x.ToString() + " must be [batch, ...]");
  if (inputs[1].shape != Shape{x[0]}) {
    throw std::invalid_argument("weights" + inputs[1].shape.ToString() +
                                " must have one element per row of x" + x.ToString());
  }
  return {MomentsOf(inputs[2])};
}

double Moments::flops(Types inputs, Types outputs) const {
  const int64_t rows = inputs[0].shape[0], columns = outputs[0].shape[1];
  return 5.0 * static_cast<double>(rows) * static_cast<double>(columns);
}

std::vector<TensorType> MomentsScaling::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 3);
  const TensorType moments = MomentsOf(inputs[2]);
  for (size_t i = 0; i < 2; ++i) {
    if (inputs[i] == moments) continue;
    throw std::invalid_argument("input " + std::to_string(i) + " is " + inputs[i].ToString() + "; must be " +
                                moments.ToString());
  }
  const TensorType out{DType::kF32, row};
  return {out, out, out};
}

std::vector<TensorType> Dropout::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  graph::CheckF32(inputs.first(1));
  if (inputs[1] != TensorType{DType::kI64, {}}) {
    throw std::invalid_argument("random_seed is " + inputs[1].ToString() + "; must be " +
                                TensorType{DType::kI64, {}}.ToString());
  }
  if (!(rate >= 0 && rate < 1)) {
    throw std::invalid_argument("rate=" + graph::ToString(rate) + "; must be at least 0 and below 1");
  }
  return {inputs[0]};
}

InputGrads Dropout::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<Dropout>({*output_grads[0], node.inputs[1]}, rate, salt), std::nullopt};
}

std::string Dropout::attributes() const {
  return "rate=" + graph::ToString(rate) + " salt=" + std::to_string(salt);
}

double Dropout::flops(Types, Types outputs) const {
  return 10.0 * static_cast<double>(outputs[0].shape.elements());
}

DropoutMask::DropoutMask(const Dropout& op, int64_t random_seed)
    : key_(Mix(static_cast<uint64_t>(random_seed), op.salt)) {
  constexpr double kOne = 1 << 24;
  // Keep at least one bit pattern, or the factor would be infinite.
  threshold_ = static_cast<int32_t>(std::min(std::round(static_cast<double>(op.rate) * kOne), kOne - 1));
  factor_ = static_cast<float>(kOne / (kOne - threshold_));
}

DropoutMask::Keys DropoutMask::KeysOf(uint64_t block) const {
  const uint64_t keys = Mix(key_ + block);
  return {static_cast<uint32_t>(keys), static_cast<uint32_t>(keys >> 32)};
}

}  // namespace leat::ops
