// Networks as a job describes them (row G4):
//
//   model:
//     inputs: 784                       # may be left out: the schema knows
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

// One training step on a batch of fixed size. Fetch what is needed, the plan leaves out the rest.
struct StepGraph {
  graph::Graph graph;
  // Placeholders. A row of weight 0 adds exactly nothing to loss and gradients, whatever finite numbers its
  // features and label are: so short batches are padded.
  graph::Value features;                // f32[batch, inputs]
  graph::Value labels;                  // f32[batch]: class index or number
  graph::Value weights;                 // f32[batch]: 1 for each row that counts
  std::vector<graph::Value> variables;  // as Model::variables()
  graph::Value loss;                    // f32 scalar
  graph::Value scores;                  // by row, before this step changes anything: LossValues::scores
  std::vector<graph::Value> gradients;  // of the loss, one for each variable
};

// Immutable; thread-safe.
class Model {
 public:
  // Reads the `model:` section. `input_features` is what the schema makes of a record, 0 when there is none
  // to ask. Throws std::invalid_argument with line, layer and sizes.
  static Model FromConfig(const Config& config, uint32_t input_features);

  uint32_t inputs() const { return inputs_; }
  uint32_t outputs() const { return outputs_; }
  const std::vector<VariableSpec>& variables() const { return variables_; }
  uint64_t parameters() const;  // elements of all variables
  const LossSpec& loss() const { return loss_; }
  Task task() const { return task_; }
  // 2 for binary tasks, 0 where there are none.
  uint32_t classes() const;

  StepGraph Build(uint32_t batch) const;

  // "784-512-512-10 softmax_cross_entropy, 669706 parameters"
  std::string ToString() const;

 private:
  uint32_t inputs_ = 0, outputs_ = 0;
  std::vector<std::shared_ptr<const Layer>> layers_;
  std::vector<VariableSpec> variables_;
  LossSpec loss_;
  Task task_ = Task::kNone;
};

// Rows whose label the scores put first: argmax for classes, ≥ 0.5 for a probability; 0 for other tasks.
// `scores` are the first labels.size() rows of StepGraph::scores.
uint64_t CountCorrect(const Model& model, std::span<const float> scores, std::span<const float> labels);

// Binary tasks: the probability of class 1 of each row, from the first out.size() rows of scores.
void PositiveScores(const Model& model, std::span<const float> scores, std::span<float> out);

}  // namespace leat::nn
