#include "compute/ops/index/index.h"

#include <stdexcept>

#include "compute/ops/shape/shape.h"

namespace leat::ops {

Shape GatheredShape(const Shape& x, const Shape& indices, int axis) {
  const size_t at = AxisOf(axis, x.rank());
  const auto sizes = x.sizes();
  std::vector<int64_t> gathered(sizes.begin(), sizes.begin() + static_cast<ptrdiff_t>(at));
  gathered.insert(gathered.end(), indices.sizes().begin(), indices.sizes().end());
  gathered.insert(gathered.end(), sizes.begin() + static_cast<ptrdiff_t>(at) + 1, sizes.end());
  return Shape(gathered);
}

void CheckIndices(const TensorType& indices) {
  if (indices.dtype == DType::kI32 || indices.dtype == DType::kI64) return;
  throw std::invalid_argument("the indices are " + indices.ToString() + "; must be i32 or i64");
}

std::vector<TensorType> Gather::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  CheckIndices(inputs[1]);
  return {{inputs[0].dtype, GatheredShape(inputs[0].shape, inputs[1].shape, axis)}};
}

InputGrads Gather::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Shape& shape = graph.shape(node.inputs[0]);
  return {graph.Make<ScatterAdd>({*output_grads[0], node.inputs[1]}, shape, axis), std::nullopt};
}

std::vector<TensorType> ScatterAdd::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  graph::CheckF32(inputs.first(1));
  CheckIndices(inputs[1]);
  const Shape needed = GatheredShape(shape, inputs[1].shape, axis);
  if (inputs[0].shape != needed) {
    throw std::invalid_argument("x" + inputs[0].shape.ToString() + " with indices" +
                                inputs[1].shape.ToString() + " into " + shape.ToString() + ": x must be " +
                                needed.ToString());
  }
  return {{DType::kF32, shape}};
}

InputGrads ScatterAdd::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<Gather>({*output_grads[0], node.inputs[1]}, axis), std::nullopt};
}

double ScatterAdd::flops(Types inputs, Types outputs) const {
  return static_cast<double>(inputs[0].shape.elements()) + static_cast<double>(outputs[0].shape.elements());
}

namespace {

void CheckFits(const Shape& shape, const Shape& indices, int axis) {
  const size_t at = AxisOf(axis, shape.rank());
  bool fits = indices.rank() == shape.rank();
  for (size_t i = 0; fits && i < shape.rank(); ++i) fits = i == at || indices[i] <= shape[i];
  if (!fits) {
    throw std::invalid_argument("indices" + indices.ToString() + " exceed " + shape.ToString() +
                                " along an axis other than " + std::to_string(axis));
  }
}

}  // namespace

std::vector<TensorType> GatherElements::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  CheckIndices(inputs[1]);
  CheckFits(inputs[0].shape, inputs[1].shape, axis);
  return {{inputs[0].dtype, inputs[1].shape}};
}

InputGrads GatherElements::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Shape& shape = graph.shape(node.inputs[0]);
  return {graph.Make<ScatterElementsAdd>({*output_grads[0], node.inputs[1]}, shape, axis), std::nullopt};
}

std::vector<TensorType> ScatterElementsAdd::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  graph::CheckF32(inputs.first(1));
  CheckIndices(inputs[1]);
  if (inputs[0].shape != inputs[1].shape) {
    throw std::invalid_argument("x" + inputs[0].shape.ToString() + " and indices" +
                                inputs[1].shape.ToString() + " differ");
  }
  CheckFits(shape, inputs[1].shape, axis);
  return {{DType::kF32, shape}};
}

InputGrads ScatterElementsAdd::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<GatherElements>({*output_grads[0], node.inputs[1]}, axis), std::nullopt};
}

namespace {

void CheckIds(const TensorType& ids) {
  if (ids.dtype != DType::kI32) throw std::invalid_argument("ids are " + ids.ToString() + "; must be i32");
}

}  // namespace

std::vector<TensorType> Embedding::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  graph::CheckF32(inputs.first(1));
  const Shape &table = inputs[0].shape, &ids = inputs[1].shape;
  if (table.rank() != 2) throw std::invalid_argument("table " + table.ToString() + " must be [rows, width]");
  CheckIds(inputs[1]);
  std::vector<int64_t> sizes(ids.sizes().begin(), ids.sizes().end());
  sizes.push_back(table[1]);
  return {{DType::kF32, Shape(std::span<const int64_t>(sizes))}};
}

InputGrads Embedding::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const int64_t rows = graph.shape(node.inputs[0])[0];
  return {graph.Make<EmbeddingGrad>({node.inputs[1], *output_grads[0]}, rows), std::nullopt};
}

std::vector<TensorType> EmbeddingGrad::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  CheckIds(inputs[0]);
  const TensorType& dy = inputs[1];
  const auto ids = inputs[0].shape.sizes(), all = dy.shape.sizes();
  const bool fits = dy.dtype == DType::kF32 && all.size() == ids.size() + 1 &&
                    std::equal(ids.begin(), ids.end(), all.begin());
  if (!fits) {
    throw std::invalid_argument("ids" + inputs[0].shape.ToString() + " and dy " + dy.ToString() +
                                ": dy must be f32 with one axis more");
  }
  return {{DType::kF32, {rows, all.back()}}};
}

InputGrads EmbeddingGrad::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {std::nullopt, graph.Make<Embedding>({*output_grads[0], node.inputs[0]})};
}

std::vector<TensorType> OneHot::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 1);
  CheckIndices(inputs[0]);
  std::vector<int64_t> sizes = SizesOf(inputs[0].shape);
  sizes.push_back(depth);
  return {{DType::kF32, Shape(sizes)}};
}

Value Range(Graph& graph, int64_t start, int64_t count, int64_t step, DType type) {
  Tensor tensor(type, Shape{count});
  const auto fill = [&]<class T>(std::span<T> elements) {
    auto x = static_cast<uint64_t>(start);
    for (T& element : elements) {
      element = static_cast<T>(static_cast<int64_t>(x));
      x += static_cast<uint64_t>(step);
    }
  };
  if (type == DType::kI32) {
    fill(tensor.as<int32_t>());
  } else if (type == DType::kI64) {
    fill(tensor.as<int64_t>());
  } else if (type == DType::kF32) {
    fill(tensor.as<float>());
  } else {
    throw std::invalid_argument("the range type is " + std::string(Name(type)) + "; must be i32, i64 or f32");
  }
  return graph.Make<Constant>({}, std::move(tensor));
}

}  // namespace leat::ops
