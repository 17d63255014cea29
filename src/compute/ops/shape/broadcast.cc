#include "compute/ops/shape/broadcast.h"

#include <algorithm>
#include <stdexcept>

namespace leat::ops {
namespace {

// Size of `axis`, counted from the end; 1 if the shape has fewer axes.
int64_t SizeFromEnd(const Shape& shape, size_t axis) {
  return axis < shape.rank() ? shape[shape.rank() - 1 - axis] : 1;
}

void CheckBroadcasts(const Shape& from, const Shape& to) {
  bool fits = from.rank() <= to.rank();
  for (size_t i = 0; fits && i < from.rank(); ++i) {
    const int64_t size = SizeFromEnd(from, i);
    fits = size == 1 || size == SizeFromEnd(to, i);
  }
  if (!fits) throw std::invalid_argument(from.ToString() + " does not broadcast to " + to.ToString());
}

}  // namespace

Shape BroadcastShape(const Shape& a, const Shape& b) {
  std::vector<int64_t> sizes(std::max(a.rank(), b.rank()));
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t m = SizeFromEnd(a, i), n = SizeFromEnd(b, i);
    if (m != n && m != 1 && n != 1) {
      throw std::invalid_argument("a" + a.ToString() + " and b" + b.ToString() + " do not broadcast: sizes " +
                                  std::to_string(m) + " and " + std::to_string(n) + " differ");
    }
    sizes[sizes.size() - 1 - i] = m == 1 ? n : m;
  }
  return Shape(sizes);
}

std::vector<int64_t> BroadcastStrides(const Shape& from, const Shape& to) {
  std::vector<int64_t> strides(to.rank(), 0);
  int64_t stride = 1;
  for (size_t i = 0; i < from.rank(); ++i) {
    const int64_t size = SizeFromEnd(from, i);
    if (size != 1) strides[to.rank() - 1 - i] = stride;
    stride *= size;
  }
  return strides;
}

std::vector<TensorType> BroadcastTo::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 1);
  CheckBroadcasts(inputs[0].shape, shape);
  return {{inputs[0].dtype, shape}};
}

InputGrads BroadcastTo::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {ReduceToShape(graph, *output_grads[0], graph.shape(node.inputs[0]))};
}

std::vector<TensorType> SumTo::Infer(Types inputs) const {
  graph::CheckF32(inputs, 1);
  CheckBroadcasts(shape, inputs[0].shape);
  return {{DType::kF32, shape}};
}

InputGrads SumTo::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {StretchToShape(graph, *output_grads[0], graph.shape(node.inputs[0]))};
}

double SumTo::flops(Types inputs, Types) const {
  return static_cast<double>(inputs[0].shape.elements());
}

Value ReduceToShape(Graph& graph, Value x, const Shape& shape) {
  return graph.shape(x) == shape ? x : graph.Make<SumTo>({x}, shape);
}

Value StretchToShape(Graph& graph, Value x, const Shape& shape) {
  return graph.shape(x) == shape ? x : graph.Make<BroadcastTo>({x}, shape);
}

}  // namespace leat::ops
