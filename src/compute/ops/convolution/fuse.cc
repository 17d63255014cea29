#include "compute/ops/convolution/fuse.h"

#include <algorithm>
#include <map>

#include "compute/ops/activation/activation.h"
#include "compute/ops/convolution/conv2d.h"
#include "compute/ops/convolution/pool.h"
#include "compute/ops/passes.h"
#include "compute/ops/shape/broadcast.h"

namespace leat::ops {
namespace {

template <class O>
const O* AsOp(const Node& node) {
  return dynamic_cast<const O*>(node.op.get());
}

bool IsActivationGrad(const Node& node) {
  return AsOp<ReluGrad>(node) != nullptr || AsOp<SigmoidGrad>(node) != nullptr ||
         AsOp<TanhGrad>(node) != nullptr;
}

// If `node` is an activation gradient that reads the max_pool_grad of its own output, that max_pool_grad;
// else nullptr.
const Node* UnpoolingBefore(const Graph& graph, const FusionCandidates& swallowing, const Node& node) {
  if (!IsActivationGrad(node) || swallowing.InControl(node)) return nullptr;
  const Node* unpool = swallowing.FusableProducer(node.inputs[1]);
  const auto* grad = unpool == nullptr ? nullptr : AsOp<MaxPoolGrad>(*unpool);
  if (grad == nullptr) return nullptr;
  const Value index = unpool->inputs[1];
  const auto* pool = AsOp<MaxPool>(graph.node(index));
  if (pool == nullptr || index.output != 1 || graph.node(index).inputs[0] != node.inputs[0]) return nullptr;
  return ToString(pool->attr) == ToString(grad->attr) ? unpool : nullptr;
}

}  // namespace

graph::Rewrite FuseConvolution(const Graph& graph, std::span<const Value> keep) {
  return FuseBias(graph, keep, [](const Op& op, Activation activation) -> std::shared_ptr<const Op> {
    const auto* conv = dynamic_cast<const Conv2d*>(&op);
    return conv == nullptr ? nullptr : std::make_shared<Conv2dBias>(conv->attr, activation);
  });
}

graph::Rewrite FuseBiasGradient(const Graph& graph, std::span<const Value> keep) {
  const FusionCandidates swallowing(graph, keep);
  // The nodes that sum images to one number per channel, by their input.
  std::map<Value, const Node*> sums;
  for (const Node& node : graph.nodes()) {
    if (AsOp<SumTo>(node) == nullptr || swallowing.InControl(node)) continue;
    const Shape& y = graph.shape(node.inputs[0]);
    if (y.rank() == 4 && node.outputs[0].shape == Shape{y[3]}) sums.try_emplace(node.inputs[0], &node);
  }
  // Pairs of weight and bias gradient, by the first node of the pair.
  std::map<graph::NodeIndex, std::pair<const Node*, const Node*>> pairs;
  std::vector<bool> second(graph.nodes().size());
  for (const Node& node : graph.nodes()) {
    if (AsOp<Conv2dGradWeights>(node) == nullptr || swallowing.InControl(node)) continue;
    const auto sum = sums.find(node.inputs[1]);
    if (sum == sums.end() || sum->second->device != node.device) continue;
    const auto [first, last] = std::minmax(node.index, sum->second->index);
    if (node.inputs[0].node >= first) continue;
    pairs[first] = {&node, sum->second};
    second[last] = true;
    sums.erase(sum);
  }
  graph::Rewrite rewrite(graph);
  for (const Node& node : graph.nodes()) {
    if (second[node.index]) continue;
    const auto pair = pairs.find(node.index);
    if (pair == pairs.end()) {
      rewrite.Copy(node);
      continue;
    }
    const auto [weights, bias] = pair->second;
    const auto& grad = *AsOp<Conv2dGradWeights>(*weights);
    const graph::NodeIndex fused =
        rewrite.graph.AddExact(std::make_shared<Conv2dGradWeightsBias>(grad.attr, grad.kernel),
                               {rewrite.At(weights->inputs[0]), rewrite.At(weights->inputs[1])}, {},
                               weights->name, weights->where, weights->device);
    rewrite.Map({weights->index, 0}, {fused, 0});
    rewrite.Map({bias->index, 0}, {fused, 1});
  }
  return rewrite;
}

graph::Rewrite ActivationGradBeforeUnpooling(const Graph& graph, std::span<const Value> keep) {
  const FusionCandidates swallowing(graph, keep);
  std::vector<const Node*> unpooling(graph.nodes().size());
  std::vector<bool> moved(graph.nodes().size());
  for (const Node& node : graph.nodes()) {
    unpooling[node.index] = UnpoolingBefore(graph, swallowing, node);
    if (unpooling[node.index] != nullptr) moved[unpooling[node.index]->index] = true;
  }
  graph::Rewrite rewrite(graph);
  for (const Node& node : graph.nodes()) {
    if (moved[node.index]) continue;
    const Node* unpool = unpooling[node.index];
    if (unpool == nullptr) {
      rewrite.Copy(node);
      continue;
    }
    const Value index = rewrite.At(unpool->inputs[1]), dp = rewrite.At(unpool->inputs[0]);
    const graph::NodeIndex grad =
        rewrite.graph.AddExact(node.op, {Value{index.node, 0}, dp}, {}, node.name, node.where, node.device);
    const graph::NodeIndex spread = rewrite.graph.AddExact(unpool->op, {Value{grad, 0}, index}, {},
                                                           unpool->name, unpool->where, unpool->device);
    rewrite.Map(node, spread);
  }
  return rewrite;
}

}  // namespace leat::ops
