#include "ops/elementwise/abs.h"

#include "ops/elementwise/mul.h"
#include "ops/elementwise/sign.h"

namespace leat::ops {

InputGrads Abs::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<Mul>({*output_grads[0], graph.Make<Sign>({node.inputs[0]})})};
}

}  // namespace leat::ops
