#include "compute/ops/loss/shares.h"

#include "compute/ops/elementwise/arithmetic.h"
#include "compute/ops/logic/logic.h"
#include "compute/ops/shape/reduce.h"

namespace leat::ops {

InputGrads Shares::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // (dy - Σ dy y) / Σ w; dy if the sum is 0, since then nothing was divided.
  const Value w = node.inputs[0], y{node.index, 0}, dy = *output_grads[0];
  const Value sum = graph.Make<ReduceSum>({w});
  const Value mean = graph.Make<ReduceSum>({graph.Make<Mul>({dy, y})});
  const Value none = graph.Make<Equal>({sum, graph.Make<Constant>({}, 0.0f)});
  const Value slope = graph.Make<Div>({graph.Make<Sub>({dy, mean}), sum});
  return {graph.Make<Where>({none, dy, slope})};
}

}  // namespace leat::ops
