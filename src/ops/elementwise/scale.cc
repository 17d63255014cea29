#include "ops/elementwise/arithmetic.h"

namespace leat::ops {

InputGrads Scale::Gradient(Graph& graph, const Node&, OutputGrads output_grads) const {
  return {graph.Make<Scale>({*output_grads[0]}, factor)};
}

std::string Scale::attributes() const {
  std::string text = "factor=" + graph::ToString(factor);
  if (offset != 0) text += " offset=" + graph::ToString(offset);
  return text;
}

}  // namespace leat::ops
