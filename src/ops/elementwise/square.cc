#include "ops/elementwise/arithmetic.h"

namespace leat::ops {

InputGrads Square::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<Mul>({*output_grads[0], graph.Make<Scale>({node.inputs[0]}, 2.0f)})};
}

}  // namespace leat::ops
