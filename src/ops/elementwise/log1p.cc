#include "ops/elementwise/transcendental.h"

#include "ops/elementwise/arithmetic.h"

namespace leat::ops {

InputGrads Log1p::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<Div>({*output_grads[0], graph.Make<Scale>({node.inputs[0]}, 1.0f, 1.0f)})};
}

}  // namespace leat::ops
