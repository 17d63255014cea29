#include "compute/ops/shape/cumsum.h"

#include "compute/ops/shape/axis.h"

namespace leat::ops {

std::vector<TensorType> CumSum::Infer(Types inputs) const {
  graph::CheckF32(inputs, 1);
  AxisOf(axis, inputs[0].shape.rank());
  return {inputs[0]};
}

InputGrads CumSum::Gradient(Graph& graph, const Node&, OutputGrads output_grads) const {
  return {graph.Make<CumSum>({*output_grads[0]}, axis, exclusive, !reverse)};
}

std::string CumSum::attributes() const {
  return "axis=" + std::to_string(axis) + (exclusive ? " exclusive=true" : "") +
         (reverse ? " reverse=true" : "");
}

}  // namespace leat::ops
