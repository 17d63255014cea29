#include "compute/ops/matrix/matrix.h"

#include <stdexcept>

#include "compute/ops/activation/activation.h"
#include "compute/ops/shape/shape.h"

namespace leat::ops {

void CheckOperands(Types inputs) {
  const bool narrow = inputs[0].dtype == DType::kBf16 && inputs[1].dtype == DType::kBf16;
  if (narrow) {
    graph::CheckF32(inputs.subspan(2));
  } else if (inputs[0].dtype == DType::kBf16 || inputs[1].dtype == DType::kBf16) {
    throw std::invalid_argument("operands are " + inputs[0].ToString() + " and " + inputs[1].ToString() +
                                "; must have the same type");
  } else {
    graph::CheckF32(inputs);
  }
}

namespace {

// With A = a or aᵀ, B likewise and y = A B: dA = dy Bᵀ and dB = Aᵀ dy, each transposed back.
template <class Product>
std::pair<Value, Value> ProductGrads(Graph& graph, const Node& node, const Product& op, Value dy) {
  const Value a = node.inputs[0], b = node.inputs[1];
  const Value da = op.transpose_a ? graph.Make<Product>({b, dy}, op.transpose_b, true)
                                  : graph.Make<Product>({dy, b}, false, !op.transpose_b);
  const Value db = op.transpose_b ? graph.Make<Product>({dy, a}, true, op.transpose_a)
                                  : graph.Make<Product>({a, dy}, !op.transpose_a, false);
  return {da, db};
}

}  // namespace

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
  const auto [da, db] = ProductGrads(graph, node, *this, *output_grads[0]);
  return {da, db};
}

std::string ProductOp::attributes() const {
  std::string text;
  if (transpose_a) text += "transpose_a=true";
  if (transpose_b) text += std::string(text.empty() ? "" : " ") + "transpose_b=true";
  return text;
}

double ProductOp::flops(Types inputs, Types outputs) const {
  const Shape& a = inputs[0].shape;
  const int64_t k = a[a.rank() - (transpose_a ? 2 : 1)];
  return 2.0 * static_cast<double>(outputs[0].shape.elements()) * static_cast<double>(k);
}

Shape MatrixOf(const Shape& shape) {
  return Shape(shape.sizes().last(2));
}

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
  // The gradient of a broadcast input is summed over the batch.
  const auto [da, db] = ProductGrads(graph, node, *this, *output_grads[0]);
  return {ReduceToShape(graph, da, graph.shape(node.inputs[0])),
          ReduceToShape(graph, db, graph.shape(node.inputs[1]))};
}

std::vector<TensorType> BiasAdd::Infer(Types inputs) const {
  graph::CheckF32(inputs, 2);
  const Shape &x = inputs[0].shape, &b = inputs[1].shape;
  if (x.rank() == 0 || b.rank() != 1 || b[0] != x[x.rank() - 1]) {
    throw std::invalid_argument("x" + x.ToString() + " + b" + b.ToString() +
                                ": the bias must have one axis, as long as the last axis of x");
  }
  return {inputs[0]};
}

InputGrads BiasAdd::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value dy = *output_grads[0];
  return {dy, ReduceToShape(graph, dy, graph.shape(node.inputs[1]))};
}

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
  const std::string text = ProductOp::attributes();
  return text + (text.empty() ? "" : " ") + "activation=" + std::string(fields::NameOf(activation));
}

}  // namespace leat::ops
