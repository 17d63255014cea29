#include "ops/elementwise/transcendental.h"

#include "ops/elementwise/arithmetic.h"

namespace leat::ops {

InputGrads Exp::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value y{node.index, 0};
  return {graph.Make<Mul>({*output_grads[0], y})};
}

}  // namespace leat::ops
