#include "ops/matrix/batch_matmul.h"

#include <stdexcept>

#include "ops/matrix/matmul.h"
#include "ops/matrix/operands.h"
#include "ops/shape/broadcast.h"

namespace leat::ops {
namespace {

Shape MatrixOf(const Shape& shape) {
  return Shape(shape.sizes().last(2));
}

}  // namespace

Shape BatchOf(const Shape& shape) {
  return Shape(shape.sizes().first(shape.rank() - 2));
}

std::vector<TensorType> BatchMatMul::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  CheckOperands(inputs);
  const Shape &a = inputs[0].shape, &b = inputs[1].shape;
  if (a.rank() < 2 || b.rank() < 2) {
    throw std::invalid_argument("a" + a.ToString() + " x b" + b.ToString() + ": both need at least two axes");
  }
  const MatMulSizes sizes = MatMulSizesOf(MatrixOf(a), MatrixOf(b), transpose_a, transpose_b);
  const Shape batch = BroadcastShape(BatchOf(a), BatchOf(b));
  std::vector<int64_t> all(batch.sizes().begin(), batch.sizes().end());
  all.insert(all.end(), {sizes.m, sizes.n});
  return {{DType::kF32, Shape(all)}};
}

InputGrads BatchMatMul::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // As for MatMul; the gradient of a broadcast input is summed over the batch.
  const Value a = node.inputs[0], b = node.inputs[1], dy = *output_grads[0];
  const Value da = transpose_a ? graph.Make<BatchMatMul>({b, dy}, transpose_b, true)
                               : graph.Make<BatchMatMul>({dy, b}, false, !transpose_b);
  const Value db = transpose_b ? graph.Make<BatchMatMul>({dy, a}, true, transpose_a)
                               : graph.Make<BatchMatMul>({a, dy}, !transpose_a, false);
  return {ReduceToShape(graph, da, graph.shape(a)), ReduceToShape(graph, db, graph.shape(b))};
}

std::string BatchMatMul::attributes() const {
  return MatMul(transpose_a, transpose_b).attributes();
}

double BatchMatMul::flops(Types inputs, Types outputs) const {
  const Shape& a = inputs[0].shape;
  const int64_t k = a[a.rank() - (transpose_a ? 2 : 1)];
  return 2.0 * static_cast<double>(outputs[0].shape.elements()) * static_cast<double>(k);
}

}  // namespace leat::ops
