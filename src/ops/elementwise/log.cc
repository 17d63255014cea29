#include "ops/elementwise/transcendental.h"

#include "ops/elementwise/arithmetic.h"

namespace leat::ops {

InputGrads Log::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<Div>({*output_grads[0], node.inputs[0]})};
}

}  // namespace leat::ops
