#include "compute/ops/convolution/pool.h"

#include <limits>
#include <stdexcept>

namespace leat::ops {
namespace {

Window PoolWindow(const PoolAttributes& a) {
  return {.kernel = a.kernel, .strides = a.strides, .dilations = {}, .padding = a.padding};
}

void CheckIndex(const PoolAttributes& attr, const TensorType& index, const Shape& y) {
  const TensorType expected{WindowIndexType(attr.kernel), y};
  if (index == expected) return;
  throw std::invalid_argument("index is " + index.ToString() + "; must be " + expected.ToString());
}

}  // namespace

Shape PooledShape(const PoolAttributes& a, const Shape& x) {
  CheckImages("x", x);
  const Pair input = ImageSize(x), output = CountWindows(PoolWindow(a), input);
  const Padding& p = a.padding;
  if (p.top >= a.kernel.height || p.bottom >= a.kernel.height || p.left >= a.kernel.width ||
      p.right >= a.kernel.width) {
    throw std::invalid_argument("kernel " + ToString(a.kernel) + " with" + WindowAttributes(PoolWindow(a)) +
                                ": the padding must be smaller than the kernel");
  }
  if (input.height == 0 || input.width == 0) {
    throw std::invalid_argument("x" + x.ToString() + ": the image is empty");
  }
  // Indices of elements in a window have 32 bits.
  if (a.kernel.height > std::numeric_limits<int32_t>::max() / a.kernel.width) {
    throw std::invalid_argument("kernel " + ToString(a.kernel) + " has more than 2^31 elements");
  }
  return {x[0], output.height, output.width, x[3]};
}

Shape UnpooledShape(const PoolAttributes& a, const Shape& y, const Pair& input) {
  CheckImages("y", y);
  const Shape x{y[0], input.height, input.width, y[3]};
  const Shape pooled = PooledShape(a, x);
  if (pooled == y) return x;
  throw std::invalid_argument("y" + y.ToString() + ": must be " + pooled.ToString() + " for input " +
                              ToString(input));
}

std::string ToString(const PoolAttributes& a) {
  return "kernel=" + ToString(a.kernel) + WindowAttributes(PoolWindow(a));
}

double PoolFlops(const PoolAttributes& a, const Shape& y) {
  return static_cast<double>(y.elements()) * static_cast<double>(a.kernel.height) *
         static_cast<double>(a.kernel.width);
}

DType WindowIndexType(const Pair& kernel) {
  return kernel.height <= 256 / kernel.width ? DType::kU8 : DType::kI32;
}

std::vector<TensorType> MaxPool::Infer(Types inputs) const {
  graph::CheckF32(inputs, 1);
  const Shape y = PooledShape(attr, inputs[0].shape);
  return {{DType::kF32, y}, {WindowIndexType(attr.kernel), y}};
}

InputGrads MaxPool::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  if (!output_grads[0]) return {std::nullopt};
  return {graph.Make<MaxPoolGrad>({*output_grads[0], Value{node.index, 1}}, attr,
                                  ImageSize(graph.shape(node.inputs[0])))};
}

double MaxPool::flops(Types, Types outputs) const {
  return PoolFlops(attr, outputs[0].shape);
}

std::vector<TensorType> MaxPoolGrad::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  graph::CheckF32(inputs.first(1));
  const Shape x = UnpooledShape(attr, inputs[0].shape, input);
  CheckIndex(attr, inputs[1], inputs[0].shape);
  return {{DType::kF32, x}};
}

InputGrads MaxPoolGrad::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<MaxPoolGather>({*output_grads[0], node.inputs[1]}, attr), std::nullopt};
}

double MaxPoolGrad::flops(Types inputs, Types) const {
  return PoolFlops(attr, inputs[0].shape);
}

std::vector<TensorType> MaxPoolGather::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  graph::CheckF32(inputs.first(1));
  const Shape y = PooledShape(attr, inputs[0].shape);
  CheckIndex(attr, inputs[1], y);
  return {{DType::kF32, y}};
}

InputGrads MaxPoolGather::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<MaxPoolGrad>({*output_grads[0], node.inputs[1]}, attr,
                                  ImageSize(graph.shape(node.inputs[0]))),
          std::nullopt};
}

std::vector<TensorType> AvgPool::Infer(Types inputs) const {
  graph::CheckF32(inputs, 1);
  return {{DType::kF32, PooledShape(attr, inputs[0].shape)}};
}

InputGrads AvgPool::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<AvgPoolGrad>({*output_grads[0]}, attr, count_include_pad,
                                  ImageSize(graph.shape(node.inputs[0])))};
}

std::string AvgPool::attributes() const {
  return ToString(attr) + (count_include_pad ? " count_include_pad=true" : "");
}

double AvgPool::flops(Types, Types outputs) const {
  return PoolFlops(attr, outputs[0].shape);
}

std::vector<TensorType> AvgPoolGrad::Infer(Types inputs) const {
  graph::CheckF32(inputs, 1);
  return {{DType::kF32, UnpooledShape(attr, inputs[0].shape, input)}};
}

InputGrads AvgPoolGrad::Gradient(Graph& graph, const Node&, OutputGrads output_grads) const {
  return {graph.Make<AvgPool>({*output_grads[0]}, attr, count_include_pad)};
}

std::string AvgPoolGrad::attributes() const {
  return AvgPool(attr, count_include_pad).attributes() + " input=" + ToString(input);
}

double AvgPoolGrad::flops(Types inputs, Types) const {
  return PoolFlops(attr, inputs[0].shape);
}

}  // namespace leat::ops
