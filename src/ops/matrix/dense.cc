#include "ops/matrix/dense.h"

#include <stdexcept>

#include "ops/elementwise/relu.h"
#include "ops/elementwise/sigmoid.h"
#include "ops/elementwise/tanh.h"
#include "ops/matrix/matmul.h"
#include "ops/shape/broadcast.h"

namespace leat::ops {

std::string_view Name(Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return "none";
    case Activation::kRelu:
      return "relu";
    case Activation::kSigmoid:
      return "sigmoid";
    case Activation::kTanh:
      return "tanh";
  }
  return "?";
}

std::vector<TensorType> Dense::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 3);
  graph::CheckF32(inputs);
  const MatMulSizes sizes = MatMulSizesOf(inputs[0].shape, inputs[1].shape, transpose_a, transpose_b);
  if (inputs[2].shape != Shape{sizes.n}) {
    throw std::invalid_argument("bias " + inputs[2].shape.ToString() + " must be " +
                                Shape{sizes.n}.ToString());
  }
  return {{DType::kF32, {sizes.m, sizes.n}}};
}

InputGrads Dense::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value y{node.index, 0}, dy = *output_grads[0];
  Value dz = dy;
  if (activation == Activation::kRelu) dz = graph.Make<ReluGrad>({y, dy});
  if (activation == Activation::kSigmoid) dz = graph.Make<SigmoidGrad>({y, dy});
  if (activation == Activation::kTanh) dz = graph.Make<TanhGrad>({y, dy});
  InputGrads grads =
      MatMul(transpose_a, transpose_b).Gradient(graph, node, std::vector<std::optional<Value>>{dz});
  grads.push_back(ReduceToShape(graph, dz, graph.shape(node.inputs[2])));
  return grads;
}

std::string Dense::attributes() const {
  std::string text = MatMul(transpose_a, transpose_b).attributes();
  return text + (text.empty() ? "" : " ") + "activation=" + std::string(Name(activation));
}

double Dense::flops(Types inputs, Types outputs) const {
  return MatMul(transpose_a, transpose_b).flops(inputs, outputs);
}

}  // namespace leat::ops
