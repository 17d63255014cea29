#include "compute/ops/passes.h"

#include <algorithm>
#include <bit>

#include "compute/ops/elementwise/elementwise.h"
#include "compute/ops/shape/shape.h"

namespace leat::ops {
namespace {

// The replacement of a node: an existing value or a new op. Neither if the node is kept.
struct Simpler {
  std::optional<Value> value;
  std::shared_ptr<const Op> op;
  std::vector<Value> inputs;
};

// The rules see a node's op and output types, and its inputs in the new graph, which are already simplified.
class Rules {
 public:
  Rules(const Graph& graph, const Node& node, std::span<const Value> inputs)
      : graph_(graph), node_(node), inputs_(inputs) {}

  Simpler Apply() const {
    if (inputs_.empty() || node_.outputs.size() != 1) return {};
    if (IsFirstInput()) return {.value = inputs_[0]};
    if (As<Mul>(node_) != nullptr && SameType(1) && AllAre(inputs_[0], 1)) return {.value = inputs_[1]};
    if (As<Neg>(node_) != nullptr && As<Neg>(Input()) != nullptr) return {.value = Input().inputs[0]};
    if (const auto* reshape = As<Reshape>(node_)) return OfReshape(*reshape);
    if (const auto* transpose = As<Transpose>(node_)) return OfTranspose(*transpose);
    return {};
  }

 private:
  const Node& Input(size_t i = 0) const { return graph_.node(inputs_[i]); }
  bool SameType(size_t i) const { return graph_.type(inputs_[i]) == node_.outputs[0]; }

  // Whether v is a constant, possibly broadcast or reshaped, with every element equal to `number`.
  bool AllAre(Value v, float number) const {
    const Node* node = &graph_.node(v);
    while (As<BroadcastTo>(*node) != nullptr || As<Reshape>(*node) != nullptr)
      node = &graph_.node(node->inputs[0]);
    const Tensor* tensor = graph::ConstantValue(*node->op);
    if (tensor == nullptr || tensor->dtype() != DType::kF32) return false;
    const auto is = [&](float x) { return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(number); };
    return tensor->elements() > 0 && std::ranges::all_of(tensor->as<const float>(), is);
  }

  // Whether the output equals input 0 in type and elements.
  bool IsFirstInput() const {
    if (!SameType(0)) return false;
    if (As<Mul>(node_) != nullptr || As<Div>(node_) != nullptr) return AllAre(inputs_[1], 1);
    if (As<Sub>(node_) != nullptr) return AllAre(inputs_[1], 0);
    if (const auto* scale = As<Scale>(node_)) return scale->factor == 1 && scale->offset == 0;
    if (As<AddN>(node_) != nullptr || As<Concat>(node_) != nullptr) return inputs_.size() == 1;
    if (const auto* slice = As<Slice>(node_)) return slice->step.empty();
    if (const auto* transpose = As<Transpose>(node_)) return std::ranges::is_sorted(transpose->permutation);
    return As<Reshape>(node_) != nullptr || As<Pad>(node_) != nullptr || As<BroadcastTo>(node_) != nullptr ||
           As<SumTo>(node_) != nullptr;
  }

  Simpler OfReshape(const Reshape& op) const {
    if (As<Reshape>(Input()) == nullptr) return {};
    const Value from = Input().inputs[0];
    if (graph_.type(from) == node_.outputs[0]) return {.value = from};
    return {.op = std::make_shared<Reshape>(op.shape), .inputs = {from}};
  }

  Simpler OfTranspose(const Transpose& op) const {
    Value from = inputs_[0];
    std::vector<int> permutation = op.permutation;
    if (const auto* inner = As<Transpose>(Input())) {
      for (int& axis : permutation) axis = inner->permutation[static_cast<size_t>(axis)];
      from = Input().inputs[0];
    }
    if (std::ranges::is_sorted(permutation)) return {.value = from};
    const Shape& shape = graph_.shape(from);
    std::vector<int> long_axes = permutation;
    std::erase_if(long_axes, [&](int axis) { return shape[static_cast<size_t>(axis)] == 1; });
    if (std::ranges::is_sorted(long_axes)) {
      return {.op = std::make_shared<Reshape>(node_.outputs[0].shape), .inputs = {from}};
    }
    if (from == inputs_[0]) return {};
    return {.op = std::make_shared<Transpose>(permutation), .inputs = {from}};
  }

  const Graph& graph_;
  const Node& node_;
  std::span<const Value> inputs_;
};

}  // namespace

graph::Rewrite Simplify(const Graph& graph, std::span<const Value> /*keep*/) {
  std::vector<bool> ordered(graph.nodes().size());
  for (const Node& node : graph.nodes()) {
    if (!node.control.empty()) ordered[node.index] = true;
    for (graph::NodeIndex c : node.control) ordered[c] = true;
  }
  graph::Rewrite all(graph);
  for (const Node& node : graph.nodes()) {
    std::vector<Value> inputs;
    for (Value v : node.inputs) inputs.push_back(all.At(v));
    const Simpler simpler = ordered[node.index] ? Simpler{} : Rules(all.graph, node, inputs).Apply();
    if (simpler.value) {
      all.Map(Value{node.index, 0}, *simpler.value);
    } else if (simpler.op != nullptr) {
      all.Replace(node, simpler.op, simpler.inputs, {});
    } else {
      all.Copy(node);
    }
  }
  return all;
}

}  // namespace leat::ops
