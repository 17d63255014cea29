#include "compute/ops/passes.h"

#include <algorithm>
#include <cmath>

#include "compute/graph/builtin.h"
#include "compute/ops/activation/activation.h"
#include "compute/ops/convolution/fuse.h"
#include "compute/ops/elementwise/elementwise.h"
#include "compute/ops/matrix/matrix.h"

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
  if (const auto* power = dynamic_cast<const Power*>(node.op.get()))
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
  if (bias_add == nullptr || dynamic_cast<const BiasAdd*>(bias_add->op.get()) == nullptr) return std::nullopt;
  const Node* linear = swallowing.FusableProducer(bias_add->inputs[0]);
  if (linear == nullptr) return std::nullopt;
  auto fused = fusion(*linear->op, activation.value_or(Activation::kNone));
  if (fused == nullptr) return std::nullopt;
  return BiasMatch{linear, bias_add, std::move(fused)};
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

std::vector<graph::Pass> StandardPasses() {
  return {Simplify,        graph::MergeCommon, FuseDense,
          FuseConvolution, FuseBiasGradient,   ActivationGradBeforeUnpooling};
}

}  // namespace leat::ops
