#include "ops/elementwise/arithmetic.h"

namespace leat::ops {

InputGrads Neg::Gradient(Graph& graph, const Node&, OutputGrads output_grads) const {
  return {graph.Make<Neg>({*output_grads[0]})};
}

}  // namespace leat::ops
