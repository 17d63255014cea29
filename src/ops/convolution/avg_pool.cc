#include "ops/convolution/avg_pool.h"

namespace leat::ops {

std::vector<TensorType> AvgPool::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 1);
  graph::CheckF32(inputs);
  return {{DType::kF32, PooledShape(attr, inputs[0].shape)}};
}

InputGrads AvgPool::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<AvgPoolGrad>({*output_grads[0]}, attr, count_include_pad,
                                  ImageSize(graph.shape(node.inputs[0])))};
}

std::string AvgPool::attributes() const {
  return ToString(attr) + (count_include_pad ? " count_include_pad=true" : "");
}

double AvgPool::flops(Types, Types outputs) const {
  return PoolFlops(attr, outputs[0].shape);
}

std::vector<TensorType> AvgPoolGrad::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 1);
  graph::CheckF32(inputs);
  return {{DType::kF32, UnpooledShape(attr, inputs[0].shape, input)}};
}

InputGrads AvgPoolGrad::Gradient(Graph& graph, const Node&, OutputGrads output_grads) const {
  return {graph.Make<AvgPool>({*output_grads[0]}, attr, count_include_pad)};
}

std::string AvgPoolGrad::attributes() const {
  return AvgPool(attr, count_include_pad).attributes() + " input=" + ToString(input);
}

double AvgPoolGrad::flops(Types inputs, Types) const {
  return PoolFlops(attr, inputs[0].shape);
}

}  // namespace leat::ops
