#include "compute/ops/normalize/layer_norm.h"

#include <stdexcept>

#include "compute/ops/compose.h"
#include "compute/ops/elementwise/arithmetic.h"
#include "compute/ops/shape/broadcast.h"
#include "compute/ops/shape/reduce.h"
#include "compute/ops/shape/reshape.h"

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

// y, m and s in plain ops.
std::vector<Value> ComposeLayerNorm(Graph& graph, const std::vector<Value>& inputs, float epsilon) {
  const Value x = inputs[0], scale = inputs[1], offset = inputs[2];
  const Shape rows = RowShape(graph.shape(x));
  const Value mean = MeanOfRows(graph, x);
  const Value centred = graph.Make<Sub>({x, mean});
  const Value variance = MeanOfRows(graph, graph.Make<Square>({centred}));
  const Value deviation = graph.Make<Sqrt>({graph.Make<Scale>({variance}, 1.0f, epsilon)});
  const Value one = graph.Make<Constant>({}, 1.0f);
  const Value inverse = graph.Make<Div>({one, deviation});
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
  if (!(epsilon > 0)) throw std::invalid_argument(attributes() + "; must be above 0");
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

std::string LayerNorm::attributes() const {
  return "epsilon=" + graph::ToString(epsilon);
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

}  // namespace leat::ops
