// Normalisation of features with statistics that are learned from the stream, for `scale: running`.
//
// Count, mean and sum of squared deviations of each such feature are in one variable of the model, words that
// compute/optim/moments.h describes. A training step pushes those of its batch, whatever the strategy, and
// they are merged into the variable; the batch itself is normalised by the variable as it was before, as
// scoring is. While the variable has counted nothing, a batch is normalised by its own moments. A feature
// that has had fewer than two values, or only equal ones, is 0. To the loss, moments are constants.
//
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "compute/graph/graph.h"
#include "compute/nn/layer.h"
#include "compute/optim/init.h"

namespace leat::nn {

class RunningScale {
 public:
  // `columns`: the features of a row that are normalised, ascending; at least one.
  explicit RunningScale(std::vector<uint32_t> columns);

  optim::VariableSpec variable() const;
  // The normalised features. x: f32[batch, row...], `variable` as above.
  graph::Value Apply(graph::Graph& graph, graph::Value x, graph::Value variable, StepContext& step) const;

 private:
  std::vector<int32_t> columns_;
};

}  // namespace leat::nn
