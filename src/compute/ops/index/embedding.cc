#include "compute/ops/index/embedding.h"

#include <stdexcept>

namespace leat::ops {
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

std::optional<RowGradient> RowsOf(const Graph& graph, Value gradient) {
  const Node& node = graph.node(gradient);
  if (node.op->kind() == "embedding_grad") return RowGradient{{{node.inputs[0], node.inputs[1]}}};
  if (node.op->kind() != "add_n") return std::nullopt;
  RowGradient all;
  for (Value input : node.inputs) {
    const auto some = RowsOf(graph, input);
    if (!some) return std::nullopt;
    all.parts.insert(all.parts.end(), some->parts.begin(), some->parts.end());
  }
  return all;
}

}  // namespace leat::ops
