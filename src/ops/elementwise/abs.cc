#include "ops/elementwise/arithmetic.h"

namespace leat::ops {

InputGrads Abs::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<Mul>({*output_grads[0], graph.Make<Sign>({node.inputs[0]})})};
}

}  // namespace leat::ops
