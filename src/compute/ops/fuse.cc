#include "compute/ops/passes.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "compute/graph/builtin.h"
#include "compute/ops/activation/activation.h"
#include "compute/ops/convolution/convolution.h"
#include "compute/ops/elementwise/elementwise.h"
#include "compute/ops/matrix/matrix.h"
#include "compute/ops/shape/shape.h"

namespace leat::ops {
namespace {

std::optional<Activation> ActivationOf(const Op& op) {
  if (dynamic_cast<const Relu*>(&op) != nullptr) return Activation::kRelu;
  if (dynamic_cast<const Sigmoid*>(&op) != nullptr) return Activation::kSigmoid;
  if (dynamic_cast<const Tanh*>(&op) != nullptr) return Activation::kTanh;
  if (const auto* gelu = dynamic_cast<const Gelu*>(&op)) {
    return gelu->approximate ? Activation::kGeluTanh : Activation::kGelu;
  }
  return std::nullopt;
}

template <class... Ops>
bool IsAnyOf(const Op& op) {
  return ((dynamic_cast<const Ops*>(&op) != nullptr) || ...);
}

// Whether the node can make NaN of numbers, such as the logarithm of a negative one, or an infinity that a
// difference behind it makes NaN. Sums and products that overflow are left out.
bool MakesNan(const Graph& graph, const Node& node) {
  if (const auto* power = As<Power>(node))
    return power->exponent < 0 || power->exponent != std::floor(power->exponent);
  if (IsAnyOf<Div>(*node.op)) return !IsAnyOf<graph::Constant>(*graph.node(node.inputs[1]).op);
  return IsAnyOf<Sqrt, Rsqrt, Reciprocal, Pow, Exp, Expm1, Log, Log1p>(*node.op);
}

// By node: whether it may be NaN for inputs that are numbers.
std::vector<bool> MayBeNan(const Graph& graph) {
  std::vector<bool> may_be(graph.nodes().size());
  for (const Node& node : graph.nodes()) {
    may_be[node.index] = MakesNan(graph, node) ||
                         std::ranges::any_of(node.inputs, [&](Value input) { return may_be[input.node]; });
  }
  return may_be;
}

// Nodes to be fused into one, which replaces the last of them.
struct BiasMatch {
  const Node* linear;
  const Node* bias_add;
  std::shared_ptr<const Op> fused;
};

std::optional<BiasMatch> MatchBias(const FusionCandidates& swallowing, const Node& last,
                                   const BiasFusion& fusion, const std::vector<bool>& may_be_nan) {
  const std::optional<Activation> activation = ActivationOf(*last.op);
  // A fused relu makes 0 of NaN (compute/kernels/cpu/table.h): a prediction would look like any other.
  if (activation == Activation::kRelu && may_be_nan[last.index]) return std::nullopt;
  const Node* bias_add = activation ? swallowing.FusableProducer(last.inputs[0]) : &last;
  if (bias_add == nullptr || As<BiasAdd>(*bias_add) == nullptr) return std::nullopt;
  const Node* linear = swallowing.FusableProducer(bias_add->inputs[0]);
  if (linear == nullptr) return std::nullopt;
  auto fused = fusion(*linear->op, activation.value_or(Activation::kNone));
  if (fused == nullptr) return std::nullopt;
  return BiasMatch{linear, bias_add, std::move(fused)};
}

bool IsActivationGrad(const Node& node) {
  return As<ReluGrad>(node) != nullptr || As<SigmoidGrad>(node) != nullptr || As<TanhGrad>(node) != nullptr;
}

// If `node` is an activation gradient that reads the max_pool_grad of its own output, that max_pool_grad;
// else nullptr.
const Node* UnpoolingBefore(const Graph& graph, const FusionCandidates& swallowing, const Node& node) {
  if (!IsActivationGrad(node) || swallowing.InControl(node)) return nullptr;
  const Node* unpool = swallowing.FusableProducer(node.inputs[1]);
  const auto* grad = unpool == nullptr ? nullptr : As<MaxPoolGrad>(*unpool);
  if (grad == nullptr) return nullptr;
  const Value index = unpool->inputs[1];
  const auto* pool = As<MaxPool>(graph.node(index));
  if (pool == nullptr || index.output != 1 || graph.node(index).inputs[0] != node.inputs[0]) return nullptr;
  return ToString(pool->attr) == ToString(grad->attr) ? unpool : nullptr;
}

}  // namespace

FusionCandidates::FusionCandidates(const Graph& graph, std::span<const Value> keep)
    : graph_(graph),
      uses_(graph::CountUses(graph, keep)),
      is_control_(graph.nodes().size()),
      crosses_(graph.nodes().size()) {
  for (const Node& node : graph.nodes()) {
    for (graph::NodeIndex c : node.control) is_control_[c] = true;
    for (Value v : node.inputs) {
      if (graph.node(v).device != node.device) crosses_[v.node] = true;
    }
  }
}

const Node* FusionCandidates::FusableProducer(Value v) const {
  const Node& node = graph_.node(v);
  return uses_[v.node][v.output] == 1 && !InControl(node) && !crosses_[v.node] ? &node : nullptr;
}

bool FusionCandidates::InControl(const Node& node) const {
  return !node.control.empty() || is_control_[node.index];
}

graph::Rewrite FuseBias(const Graph& graph, std::span<const Value> keep, const BiasFusion& fusion) {
  const FusionCandidates swallowing(graph, keep);
  const std::vector<bool> may_be_nan = MayBeNan(graph);
  // In reverse order, so that an activation claims its bias_add before that matches alone.
  std::vector<std::optional<BiasMatch>> matches(graph.nodes().size());
  std::vector<bool> swallowed(graph.nodes().size());
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    if (swallowed[i]) continue;
    matches[i] = MatchBias(swallowing, graph.nodes()[i], fusion, may_be_nan);
    if (!matches[i]) continue;
    swallowed[matches[i]->linear->index] = true;
    if (matches[i]->bias_add->index != i) swallowed[matches[i]->bias_add->index] = true;
  }
  graph::Rewrite rewrite(graph);
  for (const Node& node : graph.nodes()) {
    if (swallowed[node.index]) continue;
    const std::optional<BiasMatch>& match = matches[node.index];
    if (!match) {
      rewrite.Copy(node);
      continue;
    }
    rewrite.Replace(node, match->fused,
                    {rewrite.At(match->linear->inputs[0]), rewrite.At(match->linear->inputs[1]),
                     rewrite.At(match->bias_add->inputs[1])},
                    rewrite.MapControl(node.control));
  }
  return rewrite;
}

graph::Rewrite FuseDense(const Graph& graph, std::span<const Value> keep) {
  return FuseBias(graph, keep, [](const Op& op, Activation activation) -> std::shared_ptr<const Op> {
    const auto* matmul = dynamic_cast<const MatMul*>(&op);
    if (matmul == nullptr) return nullptr;
    return std::make_shared<Dense>(matmul->transpose_a, matmul->transpose_b, activation);
  });
}

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
    if (As<SumTo>(node) == nullptr || swallowing.InControl(node)) continue;
    const Shape& y = graph.shape(node.inputs[0]);
    if (y.rank() == 4 && node.outputs[0].shape == Shape{y[3]}) sums.try_emplace(node.inputs[0], &node);
  }
  // Pairs of weight and bias gradient, by the first node of the pair.
  std::map<graph::NodeIndex, std::pair<const Node*, const Node*>> pairs;
  std::vector<bool> second(graph.nodes().size());
  for (const Node& node : graph.nodes()) {
    if (As<Conv2dGradWeights>(node) == nullptr || swallowing.InControl(node)) continue;
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
    const auto& grad = *As<Conv2dGradWeights>(*weights);
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

std::vector<graph::Pass> StandardPasses() {
  return {Simplify,        graph::MergeCommon, FuseDense,
          FuseConvolution, FuseBiasGradient,   ActivationGradBeforeUnpooling};
}

}  // namespace leat::ops
