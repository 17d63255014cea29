#include "ops/elementwise/transcendental.h"

#include "ops/elementwise/arithmetic.h"

namespace leat::ops {

InputGrads Expm1::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value slope = graph.Make<Scale>({Value{node.index, 0}}, 1.0f, 1.0f);
  return {graph.Make<Mul>({*output_grads[0], slope})};
}

}  // namespace leat::ops
