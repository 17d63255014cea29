#include "compute/ops/matrix/dense.h"

#include <stdexcept>

#include "compute/ops/activation/activation.h"
#include "compute/ops/matrix/matmul.h"
#include "compute/ops/matrix/operands.h"
#include "compute/ops/shape/broadcast.h"

namespace leat::ops {

bool GradientNeedsInput(Activation activation) {
  return activation == Activation::kGelu || activation == Activation::kGeluTanh;
}

Value ActivationGrad(Graph& graph, Activation activation, Value from, Value dy) {
  switch (activation) {
    case Activation::kNone:
      break;
    case Activation::kRelu:
      return graph.Make<ReluGrad>({from, dy});
    case Activation::kSigmoid:
      return graph.Make<SigmoidGrad>({from, dy});
    case Activation::kTanh:
      return graph.Make<TanhGrad>({from, dy});
    case Activation::kGelu:
      return graph.Make<GeluGrad>({from, dy}, false);
    case Activation::kGeluTanh:
      return graph.Make<GeluGrad>({from, dy}, true);
  }
  return dy;
}

std::vector<TensorType> Dense::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 3);
  CheckOperands(inputs);
  const MatMulSizes sizes = MatMulSizesOf(inputs[0].shape, inputs[1].shape, transpose_a, transpose_b);
  if (inputs[2].shape != Shape{sizes.n}) {
    throw std::invalid_argument("bias " + inputs[2].shape.ToString() + " must be " +
                                Shape{sizes.n}.ToString());
  }
  return {{DType::kF32, {sizes.m, sizes.n}}};
}

InputGrads Dense::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // The fused op does not keep the activation's input, so recompute it.
  const Value from = GradientNeedsInput(activation)
                         ? graph.Make<Dense>(node.inputs, transpose_a, transpose_b, Activation::kNone)
                         : Value{node.index, 0};
  const Value dz = ActivationGrad(graph, activation, from, *output_grads[0]);
  InputGrads grads =
      MatMul(transpose_a, transpose_b).Gradient(graph, node, std::vector<std::optional<Value>>{dz});
  grads.push_back(ReduceToShape(graph, dz, graph.shape(node.inputs[2])));
  return grads;
}

std::string Dense::attributes() const {
  std::string text = MatMul(transpose_a, transpose_b).attributes();
  return text + (text.empty() ? "" : " ") + "activation=" + std::string(fields::NameOf(activation));
}

double Dense::flops(Types inputs, Types outputs) const {
  return MatMul(transpose_a, transpose_b).flops(inputs, outputs);
}

}  // namespace leat::ops
