#include "compute/nn/running_scale.h"

#include "base/check.h"
#include "compute/ops/ops.h"

namespace leat::nn {

RunningScale::RunningScale(std::vector<uint32_t> columns) : columns_(columns.begin(), columns.end()) {
  LEAT_CHECK(!columns_.empty());
}

optim::VariableSpec RunningScale::variable() const {
  return {"moments", Shape{3, static_cast<int64_t>(columns_.size()), 2}, optim::InitSpec{},
          optim::VariableRole::kMoments};
}

Value RunningScale::Apply(Graph& graph, Value x, Value variable, StepContext& step) const {
  const Graph::Scope scope(graph, "features");
  const Shape row(graph.shape(x).sizes().subspan(1));
  LEAT_CHECK(columns_.back() < row.elements());
  const Value columns = graph.Make<ops::Constant>(
      {}, Tensor::Of<int32_t>(Shape{static_cast<int64_t>(columns_.size())}, columns_));
  const Value batch = graph.Make<ops::Moments>({x, step.weights, columns});
  if (step.training) step.statistics.emplace_back(variable, batch);
  const Value by = graph.Make<ops::MomentsScaling>({variable, batch, columns}, row);
  const Value shifted = graph.Make<ops::Sub>({x, by});
  const Value centred = graph.Make<ops::Sub>({shifted, Value{by.node, 1}});
  return graph.Make<ops::Mul>({centred, Value{by.node, 2}});
}

}  // namespace leat::nn
