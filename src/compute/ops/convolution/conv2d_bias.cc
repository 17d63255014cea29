#include "compute/ops/convolution/conv2d_bias.h"

#include <stdexcept>

#include "compute/ops/matrix/matrix.h"
#include "compute/ops/shape/broadcast.h"

namespace leat::ops {

std::vector<TensorType> Conv2dBias::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 3);
  CheckOperands(inputs);
  const Conv2dSizes sizes = Conv2dSizesOf(attr, inputs[0].shape, inputs[1].shape);
  const Shape bias{sizes.filters};
  if (inputs[2].shape != bias) {
    throw std::invalid_argument("bias " + inputs[2].shape.ToString() + " must be " + bias.ToString());
  }
  return {{DType::kF32, sizes.y}};
}

InputGrads Conv2dBias::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value x = node.inputs[0], w = node.inputs[1];
  const Value from = GradientNeedsInput(activation)
                         ? graph.Make<Conv2dBias>(node.inputs, attr, Activation::kNone)
                         : Value{node.index, 0};
  const Value dz = ActivationGrad(graph, activation, from, *output_grads[0]);
  const Conv2dSizes sizes = Conv2dSizesOf(attr, graph.shape(x), graph.shape(w));
  const Value dx = graph.Make<Conv2dGradInput>({dz, w}, attr, sizes.input);
  const Value dw = graph.Make<Conv2dGradWeightsBias>({x, dz}, attr, sizes.window.kernel);
  return {dx, dw, Value{dw.node, 1}};
}

std::string Conv2dBias::attributes() const {
  const std::string text = ToString(attr);
  return text + (text.empty() ? "" : " ") + "activation=" + std::string(fields::NameOf(activation));
}

double Conv2dBias::flops(Types inputs, Types) const {
  return Conv2dSizesOf(attr, inputs[0].shape, inputs[1].shape).flops();
}

std::vector<TensorType> Conv2dGradWeightsBias::Infer(Types inputs) const {
  std::vector<TensorType> types = Conv2dGradWeights(attr, kernel).Infer(inputs);
  types.push_back({DType::kF32, {inputs[1].shape[3]}});
  return types;
}

InputGrads Conv2dGradWeightsBias::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  InputGrads grads(2);
  if (output_grads[0]) {
    grads = Conv2dGradWeights(attr, kernel).Gradient(graph, node, output_grads.first(1));
  }
  if (output_grads[1]) {
    const Value spread = StretchToShape(graph, *output_grads[1], graph.shape(node.inputs[1]));
    grads[1] = grads[1] ? graph.Make<AddN>({*grads[1], spread}) : spread;
  }
  return grads;
}

std::string Conv2dGradWeightsBias::attributes() const {
  return Conv2dGradWeights(attr, kernel).attributes();
}

double Conv2dGradWeightsBias::flops(Types inputs, Types outputs) const {
  return Conv2dGradWeights(attr, kernel).flops(inputs, outputs);
}

}  // namespace leat::ops
