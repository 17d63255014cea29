// A model that learns in this process, without servers: for programs that have their rows in memory.
//
// A step is that of a job with one worker: the same plans, and updates as a server makes them, bit for bit.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "compute/engine/plan.h"
#include "compute/nn/model.h"
#include "compute/optim/optimizer.h"
#include "protocol/allreduce/training_state.h"
#include "protocol/parameters.h"
#include "train/step/trainer.h"

namespace leat {

class Learner {
 public:
  struct Options {
    std::shared_ptr<const nn::Model> model;
    optim::OptimizerConfig optimizer;
    engine::PlanOptions plan;
    uint64_t seed = 1;          // decides on initial values, dropout and all other random choices
    uint32_t batch_size = 128;  // the most rows of a step
  };

  explicit Learner(Options options);

  // Throws std::invalid_argument for the first id in the rows that is not in its table.
  void CheckIds(std::span<const float> features) const;

  // Trains rows in their order, one step for each batch of at most `batch_size`. The outcome is that of all
  // of them. A batch whose loss or gradient is not finite changes nothing: `finite` is false then, and the
  // rows do not count as events. Throws as CheckIds does, before anything is trained.
  step::StepOutcome Learn(const step::Rows& rows);
  // Trains one batch of at most `batch_size` rows. `features` and `labels`: as step::Rows.
  step::StepOutcome LearnBatch(const step::Rows& rows, std::span<const uint32_t> batch);

  // Scores of an inference pass (LossValues::scores): model().labels() * model().outputs() numbers a row.
  // They are the same to the last bit for a row, wherever it is and whichever rows are with it, as long as
  // there are as many. Throws as CheckIds does.
  void Predict(std::span<const float> features, std::span<float> scores);
  uint32_t scores_per_row() const;

  const nn::Model& model() const { return *options_.model; }
  uint32_t batch_size() const { return options_.batch_size; }
  std::span<float> values(size_t variable) { return parameters_.values(variable); }
  uint64_t steps() const { return state_.header().step; }
  uint64_t events() const { return state_.header().events; }

  // Everything that later steps depend on besides the options: values, optimizer slots and counts, in a form
  // that only another Learner of the same options reads.
  std::vector<float> Save() const;
  // kDataLoss if `memory` has another size than what Save gives; nothing is changed then.
  Status Load(std::span<const float> memory, uint64_t steps, uint64_t events);

 private:
  // The size of the plan for a batch of this size. Plans are for the first sizes that occur; further sizes
  // are padded to one of them, or to `otherwise`.
  static uint32_t PlanFor(std::vector<uint32_t>& sizes, uint32_t size, uint32_t otherwise);
  uint32_t ScoringPlan(size_t rows);

  Options options_;
  protocol::Parameters parameters_;
  protocol::TrainingState state_;
  step::Trainer trainer_;
  std::vector<uint32_t> training_sizes_, scoring_sizes_;
  std::vector<uint32_t> rows_;  // 0, 1, …
  std::vector<uint32_t> ids_;   // Model::feature_ids
};

}  // namespace leat
