#include "ops/matrix/matmul.h"

#include <stdexcept>

#include "ops/matrix/operands.h"

namespace leat::ops {

MatMulSizes MatMulSizesOf(const Shape& a, const Shape& b, bool transpose_a, bool transpose_b) {
  const std::string operands =
      "a" + a.ToString() + (transpose_a ? "ᵀ" : "") + " x b" + b.ToString() + (transpose_b ? "ᵀ" : "");
  if (a.rank() != 2 || b.rank() != 2) throw std::invalid_argument(operands + ": both must be matrices");
  const int64_t k = a[transpose_a ? 0 : 1], other = b[transpose_b ? 1 : 0];
  if (k != other) {
    throw std::invalid_argument(operands + ": inner sizes " + std::to_string(k) + " and " +
                                std::to_string(other) + " differ");
  }
  return {.m = a[transpose_a ? 1 : 0], .n = b[transpose_b ? 0 : 1], .k = k};
}

std::vector<TensorType> MatMul::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  CheckOperands(inputs);
  const MatMulSizes sizes = MatMulSizesOf(inputs[0].shape, inputs[1].shape, transpose_a, transpose_b);
  return {{DType::kF32, {sizes.m, sizes.n}}};
}

InputGrads MatMul::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // With A = a or aᵀ, B likewise and y = A B: dA = dy Bᵀ and dB = Aᵀ dy, each transposed back.
  const Value a = node.inputs[0], b = node.inputs[1], dy = *output_grads[0];
  const Value da = transpose_a ? graph.Make<MatMul>({b, dy}, transpose_b, true)
                               : graph.Make<MatMul>({dy, b}, false, !transpose_b);
  const Value db = transpose_b ? graph.Make<MatMul>({dy, a}, true, transpose_a)
                               : graph.Make<MatMul>({a, dy}, !transpose_a, false);
  return {da, db};
}

std::string MatMul::attributes() const {
  std::string text;
  if (transpose_a) text += "transpose_a=true";
  if (transpose_b) text += std::string(text.empty() ? "" : " ") + "transpose_b=true";
  return text;
}

double MatMul::flops(Types inputs, Types outputs) const {
  const int64_t k = inputs[0].shape[transpose_a ? 0 : 1];
  return 2.0 * static_cast<double>(outputs[0].shape.elements()) * static_cast<double>(k);
}

}  // namespace leat::ops
