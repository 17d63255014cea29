#include "compute/nn/loss.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "compute/ops/ops.h"

namespace leat::nn {
namespace {

using graph::Graph;
using graph::Node;
using graph::Value;

constexpr float kUnbounded = std::numeric_limits<float>::infinity();
constexpr int kDepth = 8;  // depth of the functions that are compared

// Facts that hold for all elements of a value.
struct Known {
  float low = -kUnbounded, high = kUnbounded;
  bool rearranged = false;  // values of a relu or log-softmax, perhaps rearranged
};

Known Spanning(std::initializer_list<float> values) {
  if (std::ranges::any_of(values, [](float x) { return std::isnan(x); })) return {};
  const auto [low, high] = std::ranges::minmax(values);
  return {low, high};
}

Known SumOf(const Known& a, const Known& b) {
  return {Spanning({a.low + b.low}).low, Spanning({a.high + b.high}).high};
}

float Times(float a, float b) {
  return a == 0 || b == 0 ? 0 : a * b;
}

Known OfConstant(const Tensor& tensor) {
  if (tensor.dtype() != DType::kF32 || tensor.elements() == 0) return {};
  const auto values = tensor.as<const float>();
  if (std::ranges::any_of(values, [](float x) { return std::isnan(x); })) return {};
  const auto [low, high] = std::ranges::minmax(values);
  return {low, high};
}

bool IsOf(std::initializer_list<std::string_view> kinds, const Node& node) {
  return std::ranges::find(kinds, node.op->kind()) != kinds.end();
}

bool Rearranges(const Node& node) {
  return IsOf({"concat", "dropout", "gather", "gather_elements", "reshape", "slice", "split", "transpose"},
              node);
}

// Whether both values are computed by the same ops from the same values.
bool SameFunction(const Graph& graph, Value a, Value b, int depth = kDepth) {
  if (a == b) return true;
  const Node &m = graph.node(a), &n = graph.node(b);
  if (depth == 0 || a.output != b.output || m.inputs.empty() || m.inputs.size() != n.inputs.size() ||
      m.op->kind() != n.op->kind() || m.op->attributes() != n.op->attributes())
    return false;
  for (size_t i = 0; i < m.inputs.size(); ++i) {
    if (!SameFunction(graph, m.inputs[i], n.inputs[i], depth - 1)) return false;
  }
  return true;
}

class KnownOf {
 public:
  explicit KnownOf(const Graph& graph) : graph_(graph) {}

  Known Of(Value v) {
    for (size_t i = known_.size(); i <= v.node; ++i)
      known_.push_back(OfNode(graph_.node(static_cast<graph::NodeIndex>(i))));
    return known_[v.node];
  }

 private:
  const Known& In(const Node& node, size_t i) const { return known_[node.inputs[i].node]; }

  Known OfNode(const Node& node) const {
    if (const Tensor* tensor = graph::ConstantValue(*node.op)) return OfConstant(*tensor);
    if (node.inputs.empty()) return {};
    if (node.op->kind() == "where") return OfAny(node, 1);
    if (node.op->kind() == "concat") return OfAny(node, 0);
    if (Rearranges(node) ||
        IsOf({"broadcast_to", "max_pool", "reduce_max", "reduce_mean", "reduce_min"}, node)) {
      Known x = In(node, 0);
      x.rearranged = x.rearranged && Rearranges(node);
      return x;
    }
    if (node.inputs.size() == 1) return OfOne(node, In(node, 0));
    return node.inputs.size() == 2 ? OfTwo(node, In(node, 0), In(node, 1)) : Known{};
  }

  Known OfAny(const Node& node, size_t first) const {
    Known all{kUnbounded, -kUnbounded, false};
    for (size_t i = first; i < node.inputs.size(); ++i) {
      const Known& x = In(node, i);
      all = {std::min(all.low, x.low), std::max(all.high, x.high), all.rearranged || x.rearranged};
    }
    all.rearranged = all.rearranged && Rearranges(node);
    return all;
  }

  static Known OfOne(const Node& node, const Known& x) {
    const std::string_view kind = node.op->kind();
    if (kind == "sigmoid" || kind == "softmax") return {0, 1};
    if (kind == "tanh") return {-1, 1};
    if (kind == "log_softmax") return {-kUnbounded, 0, true};
    if (kind == "relu") return {std::max(x.low, 0.0f), std::max(x.high, 0.0f), true};
    if (kind == "softplus") return {0, kUnbounded};
    if (kind == "exp") return {std::exp(x.low), std::exp(x.high)};
    if (kind == "neg") return {-x.high, -x.low};
    if (kind == "sqrt" && x.low >= 0) return {std::sqrt(x.low), std::sqrt(x.high)};
    if (kind == "reciprocal" && x.low > 0) return {1 / x.high, 1 / x.low};
    if (kind == "abs" || kind == "square") {
      const float a = std::fabs(x.low), b = std::fabs(x.high);
      const float near = x.low <= 0 && x.high >= 0 ? 0 : std::min(a, b), far = std::max(a, b);
      return kind == "abs" ? Known{near, far} : Known{near * near, far * far};
    }
    if (kind == "reduce_sum" && x.low >= 0) return {0, kUnbounded};
    if (const auto* scale = dynamic_cast<const ops::Scale*>(node.op.get()))
      return Spanning(
          {Times(scale->factor, x.low) + scale->offset, Times(scale->factor, x.high) + scale->offset});
    if (const auto* clip = dynamic_cast<const ops::Clip*>(node.op.get()))
      return {std::clamp(x.low, clip->low, clip->high), std::clamp(x.high, clip->low, clip->high),
              x.rearranged};
    return {};
  }

  Known OfTwo(const Node& node, const Known& a, const Known& b) const {
    const std::string_view kind = node.op->kind();
    if (kind == "maximum") return {std::max(a.low, b.low), std::max(a.high, b.high)};
    if (kind == "minimum") return {std::min(a.low, b.low), std::min(a.high, b.high)};
    if (kind == "add") return SumOf(a, b);
    if (kind == "sub") return SumOf(a, {-b.high, -b.low});
    if (kind == "mul")
      return Spanning(
          {Times(a.low, b.low), Times(a.low, b.high), Times(a.high, b.low), Times(a.high, b.high)});
    if (kind != "div") return {};
    const Node& divisor = graph_.node(node.inputs[1]);
    const Value total = divisor.op->kind() == "broadcast_to" ? divisor.inputs[0] : node.inputs[1];
    if (a.low >= 0 && Covers(total, node.inputs[0])) return {0, 1};
    if (b.low <= 0) return {};
    return Spanning({a.low / b.low, a.low / b.high, a.high / b.low, a.high / b.high});
  }

  // Whether `total` is at least x, which has no negative elements: it is x, a sum with x, or along its axes.
  bool Covers(Value total, Value x, int depth = kDepth) const {
    if (depth == 0 || SameFunction(graph_, total, x)) return depth > 0;
    const Node& node = graph_.node(total);
    const auto covers = [&](size_t i) { return Covers(node.inputs[i], x, depth - 1); };
    if (node.op->kind() == "maximum") return covers(0) || covers(1);
    if (node.op->kind() == "add")
      return (In(node, 1).low >= 0 && covers(0)) || (In(node, 0).low >= 0 && covers(1));
    if (const auto* scale = dynamic_cast<const ops::Scale*>(node.op.get()))
      return scale->factor >= 1 && scale->offset >= 0 && covers(0);
    if (const auto* clip = dynamic_cast<const ops::Clip*>(node.op.get()))
      return clip->high == std::numeric_limits<float>::max() && covers(0);
    const bool moved = node.op->kind() == "reshape";  // an axis that the sum did not keep
    const Node& reduced = moved ? graph_.node(node.inputs[0]) : node;
    const auto* sum = dynamic_cast<const ops::ReduceSum*>(reduced.op.get());
    return sum != nullptr && node.outputs[0].shape == sum->KeptShape(graph_.shape(x)) &&
           SameFunction(graph_, reduced.inputs[0], x);
  }

  const Graph& graph_;
  std::vector<Known> known_;  // facts of the nodes so far, for all outputs of each
};

}  // namespace

bool EndsWithActivation(const Graph& graph, Value v) {
  constexpr float kMost = 1.001f;  // 1 and an epsilon
  const Known all = KnownOf(graph).Of(v);
  return all.rearranged || (all.low >= -kMost && all.high <= kMost);
}

}  // namespace leat::nn
