#include "ops/activation/activation.h"

#include "ops/elementwise/arithmetic.h"

namespace leat::ops {

InputGrads Softplus::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<Mul>({*output_grads[0], graph.Make<Sigmoid>({node.inputs[0]})})};
}

}  // namespace leat::ops
