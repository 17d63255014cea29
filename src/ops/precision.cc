#include "ops/precision.h"

#include <algorithm>
#include <map>
#include <memory>

#include "ops/elementwise/cast.h"
#include "ops/matrix/batch_matmul.h"
#include "ops/matrix/dense.h"
#include "ops/matrix/matmul.h"

namespace leat::ops {
namespace {

bool IsProduct(const Op& op) {
  return dynamic_cast<const MatMul*>(&op) != nullptr || dynamic_cast<const Dense*>(&op) != nullptr ||
         dynamic_cast<const BatchMatMul*>(&op) != nullptr;
}

// The smaller side of the matrices that a product makes.
int64_t SmallerSide(const Shape& y) {
  return std::min(y[y.rank() - 2], y[y.rank() - 1]);
}

// Operands in bf16, each made where it is first read.
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
      const bool narrow = IsProduct(*node.op) && graph.type(node.inputs[0]).dtype == DType::kF32 &&
                          SmallerSide(node.outputs[0].shape) >= least;
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
