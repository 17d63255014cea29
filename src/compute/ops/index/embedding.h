// Embedding lookup, and the sparse gradient of the table.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// Inputs table f32[rows, width], ids i32[...]; output f32[..., width]. An id outside [0, rows) gives zeros
// and has no gradient; kernels must not use it as an index.
struct Embedding final : Named<Op, "embedding"> {
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Inputs ids i32[...], dy f32[..., width]; output f32[rows, width]: row i is the sum of the rows of dy with
// id i, in order.
struct EmbeddingGrad final : Named<Op, "embedding_grad"> {
  explicit EmbeddingGrad(int64_t r) : rows(r) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "rows=" + std::to_string(rows); }

  const int64_t rows;
};

// A sparse gradient of a table: the sum of `rows[i]` at row `ids[i]`. Ids may repeat; ids outside the table
// are ignored.
struct RowGradient {
  struct Part {
    Value ids;   // i32[...]
    Value rows;  // f32[..., width]
  };
  std::vector<Part> parts;
};

// The sparse form of a gradient from graph::Gradients, if it comes only from lookups in one table; empty if
// it is dense. A caller that fetches the parts instead of the gradient avoids computing a table-sized tensor.
std::optional<RowGradient> RowsOf(const Graph& graph, Value gradient);

}  // namespace leat::ops
