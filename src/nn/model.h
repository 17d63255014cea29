// Networks as a job describes them:
//
//   model:
//     inputs: 784                       # or [28, 28, 1]; may be left out: the schema knows
//     layers:
//       - dense: {units: 512, activation: relu}
//       - dense: {units: 10}
//     loss: softmax_cross_entropy       # or {type: ..., reduction: sum, weight: 0.5}
//
// Layers: nn/layer.h. A model knows nothing of distribution: it lists its variables and builds graphs over
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/config.h"
#include "graph/graph.h"
#include "nn/layer.h"
#include "nn/loss.h"
#include "optim/init.h"

namespace leat::nn {

using VariableSpec = optim::VariableSpec;

// What a model has to fit, and what comes from other folders.
struct ModelContext {
  uint32_t features = 0;  // numbers that the schema makes of a record, 0 when there is none to ask
  uint32_t labels = 1;    // labels of a record
  std::string data;       // directory that paths in the model are looked up in; empty: the current one
  std::span<const LayerKind> kinds = {};  // of layers, besides LayerKinds()
};

// One step on a batch of fixed size. Fetch what is needed, the plan leaves out the rest.
struct StepGraph {
  graph::Graph graph;
  // Placeholders. A row of weight 0 adds exactly nothing to loss and gradients, whatever finite numbers its
  // features and label are: so short batches are padded.
  graph::Value features;     // f32[batch, inputs]
  graph::Value labels;       // f32[batch, labels], f32[batch] when there is one: class index or number
  graph::Value weights;      // f32[batch]: 1 for each row that counts
  graph::Value random_seed;  // i64 scalar: another number each step, what random choices come from
  std::vector<graph::Value> variables;  // as Model::variables()
  graph::Value loss;                    // f32 scalar
  graph::Value scores;                  // by row, before this step changes anything: LossValues::scores
  // One for each variable: of the loss, or what is to be subtracted from a statistic. None when not training.
  std::vector<graph::Value> gradients;
};

// Immutable; thread-safe.
class Model {
 public:
  // Reads the `model:` section. Throws std::invalid_argument with line, layer and sizes.
  static Model FromConfig(const Config& config, const ModelContext& context);

  uint32_t inputs() const { return static_cast<uint32_t>(input_shape_.elements()); }  // features of a row
  const Shape& input_shape() const { return input_shape_; }  // the same as the first layer sees them
  const Layers& layers() const { return layers_; }
  uint32_t labels() const { return labels_; }    // of a row
  uint32_t outputs() const { return outputs_; }  // for each label
  // > 0: features have to be whole numbers from 0 to below this, since they index a table.
  uint32_t feature_ids() const { return layers_.all().front()->ids(); }
  const std::vector<VariableSpec>& variables() const { return variables_; }
  uint64_t parameters() const;  // elements of all variables
  const LossSpec& loss() const { return loss_; }
  Task task() const { return task_; }
  // 2 for binary tasks, 0 where there are none.
  uint32_t classes() const;

  // `training`: with gradients, and with what layers do only then (dropout, statistics of the batch).
  StepGraph Build(uint32_t batch, bool training = true) const;

  // "784-512-512-10 softmax_cross_entropy, 669706 parameters"
  std::string ToString() const;

 private:
  void AddGradients(const StepContext& context, StepGraph* step) const;

  Shape input_shape_;
  uint32_t labels_ = 1, outputs_ = 0;
  Layers layers_;
  std::vector<VariableSpec> variables_;
  LossSpec loss_;
  Task task_ = Task::kNone;
};

// Labels that the scores put first: argmax for classes, ≥ 0.5 for a probability; 0 for other tasks.
// `scores` are the first labels.size() of StepGraph::scores.
uint64_t CountCorrect(const Model& model, std::span<const float> scores, std::span<const float> labels);

// Binary tasks: the probability of class 1 of each row, from the first out.size() rows of scores.
void PositiveScores(const Model& model, std::span<const float> scores, std::span<float> out);

}  // namespace leat::nn
