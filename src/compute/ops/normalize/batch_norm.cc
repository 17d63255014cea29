#include "compute/ops/normalize/batch_norm.h"

#include <stdexcept>

#include "compute/ops/activation/activation.h"
#include "compute/ops/compose.h"
#include "compute/ops/elementwise/arithmetic.h"
#include "compute/ops/shape/broadcast.h"
#include "compute/ops/shape/reduce.h"
#include "compute/ops/shape/reshape.h"

namespace leat::ops {
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

Value InverseDeviation(Graph& graph, Value variance, float epsilon) {
  const Value deviation = graph.Make<Sqrt>({graph.Make<Scale>({variance}, 1.0f, epsilon)});
  const Value one = graph.Make<Constant>({}, 1.0f);
  return graph.Make<Div>({one, deviation});
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

void CheckEpsilon(float epsilon) {
  if (!(epsilon > 0))
    throw std::invalid_argument("epsilon=" + graph::ToString(epsilon) + "; must be above 0");
}

}  // namespace

std::vector<TensorType> BatchNorm::Infer(Types inputs) const {
  graph::CheckF32(inputs, 4);
  CheckInputs(inputs[0], inputs[3], inputs.subspan(1, 2));
  CheckEpsilon(epsilon);
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

std::string BatchNorm::attributes() const {
  return "epsilon=" + graph::ToString(epsilon);
}

double BatchNorm::flops(Types inputs, Types) const {
  return 8.0 * static_cast<double>(inputs[0].shape.elements());
}

std::vector<TensorType> BatchNormGrad::Infer(Types inputs) const {
  graph::CheckF32(inputs, 6);
  CheckInputs(inputs[0], inputs[2], std::vector{inputs[1], inputs[3], inputs[4]});
  CheckEpsilon(epsilon);
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

std::string BatchNormGrad::attributes() const {
  return "epsilon=" + graph::ToString(epsilon);
}

double BatchNormGrad::flops(Types inputs, Types) const {
  return 12.0 * static_cast<double>(inputs[0].shape.elements());
}

}  // namespace leat::ops
