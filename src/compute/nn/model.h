// A network as described in a job:
//
//   model:
//     inputs: 784                       # or [28, 28, 1]; default: from the schema
//     layers:
//       - dense: {units: 512, activation: relu}
//       - dense: {units: 10}
//     loss: softmax_cross_entropy       # or {type: ..., reduction: sum, weight: 0.5}
//
// Layers: compute/nn/layer.h. A model lists its variables and builds graphs; it is independent of
// distribution.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/config/config.h"
#include "compute/graph/graph.h"
#include "compute/nn/layer.h"
#include "compute/nn/loss.h"
#include "compute/optim/init.h"

namespace leat::nn {

using VariableSpec = optim::VariableSpec;

// Normalisation of features with statistics that are learned from the stream, for `scale: running`.
//
// Count, mean and sum of squared deviations of each such feature are in one variable of the model, words that
// compute/optim/moments.h describes. A training step pushes those of its batch, whatever the strategy, and
// they are merged into the variable; the batch itself is normalised by the variable as it was before, as
// scoring is. While the variable has counted nothing, a batch is normalised by its own moments. A feature
// that has had fewer than two values, or only equal ones, is 0. To the loss, moments are constants.
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

// The data that a model must match, and extensions.
struct ModelContext {
  uint32_t features = 0;                  // features per record according to the schema; 0: no schema
  uint32_t labels = 1;                    // labels per record
  std::vector<uint32_t> running = {};     // features that the model normalises, ascending
  LayerFiles files = {};                  // where the files are that the model names
  std::span<const LayerKind> kinds = {};  // additional kinds of layers, besides LayerKinds()
  uint64_t seed = 1;                      // the job's seed, for the values of layers that are not trained
};

// A step on a batch of fixed size. A plan computes only the values that are fetched.
struct StepGraph {
  graph::Graph graph;
  // Placeholders. To pad a short batch, set the weight of the extra rows to 0: they then contribute nothing
  // to the loss or the gradients, whatever finite features and labels they have.
  graph::Value features;     // f32[batch, inputs]
  graph::Value labels;       // f32[batch, labels], or f32[batch] for one label: class index or number
  graph::Value weights;      // f32[batch]: 1 for valid rows, 0 for padding
  graph::Value random_seed;  // i64 scalar, different in each step; the source of all random choices
  std::vector<graph::Value> variables;  // in the order of Model::variables()
  graph::Value loss;                    // f32 scalar
  graph::Value scores;                  // LossValues::scores, with the variables before this step
  // For each variable: the gradient of the loss, the amount to subtract from a statistic, or the batch's
  // moments. Empty if not training.
  std::vector<graph::Value> gradients;
};

// Immutable; thread-safe.
class Model {
 public:
  // Reads the `model:` section. Throws std::invalid_argument with line, layer and sizes.
  static Model FromConfig(const Config& config, const ModelContext& context);

  uint32_t inputs() const { return static_cast<uint32_t>(input_shape_.elements()); }  // features of a row
  const Shape& input_shape() const { return input_shape_; }  // shape of a row for the first layer
  const Layers& layers() const { return layers_; }
  bool scales() const { return scale_.has_value(); }  // has features with a running scale
  uint32_t labels() const { return labels_; }         // per row
  uint32_t outputs() const { return outputs_; }       // per label
  // For each feature: if > 0, it must be a whole number in [0, feature_ids()[i]), since it indexes a table.
  // Empty: no feature does.
  std::vector<uint32_t> feature_ids() const { return layers_.all().front()->ids(); }
  // The moments of the running scale, if there is one, then those of the layers.
  const std::vector<VariableSpec>& variables() const { return variables_; }
  // Variables of layers with `trainable: false`, which are in no slice and no checkpoint.
  std::vector<FrozenVariable> frozen() const { return layers_.frozen(); }
  uint64_t parameters() const;  // elements of all variables but moments
  const LossSpec& loss() const { return loss_; }
  Task task() const { return task_; }
  // Number of classes: 2 for binary tasks, 0 for tasks without classes.
  uint32_t classes() const;

  // Adds the running scale and the layers to a graph. x: f32[batch, input_shape()...], `variables` in the
  // order of variables(); the result is the input of the loss.
  graph::Value Apply(graph::Graph& graph, graph::Value x, std::span<const graph::Value> variables,
                     StepContext& step) const;
  // Builds the graph of a step. `training` adds gradients, and enables dropout and batch statistics.
  StepGraph Build(uint32_t batch, bool training = true) const;

  // Whether a training step scores otherwise than Build(batch, false): dropout, or statistics of the batch.
  bool differs_in_training() const;

  // "784-512-512-10 softmax_cross_entropy, 669706 parameters"
  std::string ToString() const;

 private:
  void AddGradients(const StepContext& context, StepGraph* step) const;

  Shape input_shape_;
  uint32_t labels_ = 1, outputs_ = 0;
  std::optional<RunningScale> scale_;
  Layers layers_;
  std::vector<VariableSpec> variables_;
  LossSpec loss_;
  Task task_ = Task::kNone;
};

// The number of labels that the scores predict correctly: by argmax for classes, by ≥ 0.5 for a probability.
// 0 for other tasks. `scores` are the scores of the first labels.size() labels.
uint64_t CountCorrect(const Model& model, std::span<const float> scores, std::span<const float> labels);

// For regression: Σ |score - label|; 0 for other tasks. Arguments as above.
double AbsoluteError(const Model& model, std::span<const float> scores, std::span<const float> labels);

// For binary tasks: copies the probability of class 1 of the first out.size() rows from `scores`.
void PositiveScores(const Model& model, std::span<const float> scores, std::span<float> out);

}  // namespace leat::nn
