// Rows of a table by their numbers, and the gradient by the table, which touches few of its rows.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// Inputs table f32[rows, width], ids i32[...]; output f32[..., width]. An id outside of [0, rows) gives zeros
// and has no gradient; no kernel reads by it.
class Embedding final : public Op {
 public:
  std::string_view kind() const override { return "embedding"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Inputs ids i32[...], dy f32[..., width]; output f32[rows, width]: each row the sum of those rows of dy
// whose id it is, in their order.
class EmbeddingGrad final : public Op {
 public:
  explicit EmbeddingGrad(int64_t r) : rows(r) {}
  std::string_view kind() const override { return "embedding_grad"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "rows=" + std::to_string(rows); }

  const int64_t rows;
};

// A gradient by a table as the rows it is made of. An id may occur any number of times, also outside of the
// table, where its row counts for nothing; the gradient is their sum.
struct RowGradient {
  struct Part {
    Value ids;   // i32[...]
    Value rows;  // f32[..., width]
  };
  std::vector<Part> parts;
};

// The rows of a gradient that graph::Gradients made, when it comes from lookups alone, one or several of the
// same table; otherwise it is dense, and the result empty. Whoever fetches the parts' values in place of the
// gradient never has the table-sized tensor computed.
std::optional<RowGradient> RowsOf(const Graph& graph, Value gradient);

}  // namespace leat::ops
