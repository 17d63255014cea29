#include "compute/ops/passes.h"

#include <algorithm>
#include <map>
#include <memory>

#include "compute/ops/convolution/convolution.h"
#include "compute/ops/elementwise/elementwise.h"
#include "compute/ops/matrix/matrix.h"

namespace leat::ops {
namespace {

template <class O>
bool Is(const Op& op) {
  return dynamic_cast<const O*>(&op) != nullptr;
}

// Whether the product is large enough to pay for rounding its operands.
bool IsWorthIt(const Graph& graph, const Node& node, int64_t least) {
  const Op& op = *node.op;
  const Shape& made = node.outputs[0].shape;
  if (Is<MatMul>(op) || Is<Dense>(op) || Is<BatchMatMul>(op)) {
    return std::min(made[made.rank() - 2], made[made.rank() - 1]) >= least;
  }
  // [filters, channels per group, ...]
  const auto fits = [&](const Shape& w) { return w[0] >= least && w[1] >= least / 2; };
  if (Is<Conv2d>(op) || Is<Conv2dBias>(op) || Is<Conv2dGradInput>(op))
    return fits(graph.shape(node.inputs[1]));
  return (Is<Conv2dGradWeights>(op) || Is<Conv2dGradWeightsBias>(op)) && fits(made);
}

// Operands rounded to bf16, each created at its first use.
class Rounded {
 public:
  explicit Rounded(graph::Rewrite* rewrite) : rewrite_(rewrite) {}
  Value Of(Value v, const Node& reader) {
    const auto [at, added] = values_.try_emplace(v);
    if (added) {
      Graph& graph = rewrite_->graph;
      const std::string name = graph.node(v).name + "/bf16" + (v.output > 0 ? std::to_string(v.output) : "");
      at->second = {graph.AddExact(std::make_shared<Cast>(DType::kBf16), {v}, {}, Unused(name), reader.where,
                                   graph.node(v).device),
                    0};
    }
    return at->second;
  }

 private:
  std::string Unused(std::string name) const {
    while (rewrite_->graph.Find(name)) name += "_";
    return name;
  }

  graph::Rewrite* rewrite_;
  std::map<Value, Value> values_;
};

}  // namespace

graph::Pass UseBf16(int64_t least) {
  return [least](const Graph& graph, std::span<const Value>) {
    graph::Rewrite rewrite(graph);
    Rounded rounded(&rewrite);
    for (const Node& node : graph.nodes()) {
      const bool narrow = IsWorthIt(graph, node, least) && graph.type(node.inputs[0]).dtype == DType::kF32;
      if (!narrow) {
        rewrite.Copy(node);
        continue;
      }
      std::vector<Value> inputs;
      for (Value v : node.inputs) inputs.push_back(rewrite.At(v));
      for (size_t i = 0; i < 2; ++i) inputs[i] = rounded.Of(inputs[i], node);
      rewrite.Replace(node, node.op, std::move(inputs), rewrite.MapControl(node.control));
    }
    return rewrite;
  };
}

}  // namespace leat::ops
