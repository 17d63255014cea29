// The computation of a worker: turns a batch of rows into gradients and scores, by compiled plans.
//
// Plans read parameters from, and write gradients to, the memory of protocol::Parameters, which the transport
// also uses: nothing is copied in between. Each batch size has its own plan. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/metrics/auc.h"
#include "base/recorder/recorder.h"
#include "compute/engine/plan.h"
#include "compute/nn/model.h"
#include "compute/optim/optimizer.h"
#include "protocol/parameters.h"
#include "protocol/strategy.h"

namespace leat::step {

// Decoded rows of the stream. The features of row i are features[i * width, (i + 1) * width).
struct Rows {
  std::span<const float> features;
  std::span<const float> labels;  // model.labels() per row
  std::span<const float> truth;   // known probability of class 1, or empty
};

struct StepOutcome {
  uint32_t events = 0;        // rows in the batch
  double loss_sum = 0;        // sum of the rows' losses, before training on them
  uint64_t correct = 0;       // labels predicted correctly, of events · model.labels()
  double absolute_error = 0;  // regression: sum over all labels
  bool finite = true;         // the loss and all gradients are finite; if not, the batch is not scored
  bool overflow_safe =
      false;  // all gradients are below kOverflowSafe, so that sums of a million of them are finite
};
inline constexpr float kOverflowSafe = 0x1p107f;

class Trainer {
 public:
  // `model` and the parameters in use must outlive this. The parameters' table lists the model's variables in
  // order. `clipping` applies to the gradients of each batch.
  Trainer(const nn::Model& model, protocol::Parameters& parameters, const engine::PlanOptions& options,
          const optim::Clipping& clipping = {});

  // Compiles what Step needs for batches of this size. Otherwise the first of them does.
  void Prepare(uint32_t batch_size);
  // Plans compiled so far.
  uint32_t plans() const { return plans_; }

  // Scores a batch, then computes its gradients into the parameters' gradients. `batch` holds the indices of
  // its rows, at most `batch_size`. If the gradients' memory is still in use elsewhere, other memory is taken
  // (AcquireGradientBuffer). An empty batch computes nothing. `random_seed` determines all random choices
  // (dropout), so that training a batch again repeats them.
  StepOutcome Step(const Rows& rows, std::span<const uint32_t> batch, uint32_t batch_size,
                   uint64_t random_seed = 0);
  // Scores a batch without computing gradients, for evaluation.
  StepOutcome Score(const Rows& rows, std::span<const uint32_t> batch, uint32_t batch_size);
  // Scores a batch for predictions() and scores() alone; nothing is counted, and the rows need no labels.
  void Predict(const Rows& rows, std::span<const uint32_t> batch, uint32_t batch_size);
  // From now on Step scores a batch by an inference pass before it trains it, if the model's scores differ in
  // training.
  void ScoreByInference() { by_inference_ = model_.differs_in_training(); }
  // The scores of the last batch, as they were before it was trained; binary tasks: the probability of class
  // 1. In the order of the batch, with the same number for each row. Valid until the next batch.
  std::span<const float> predictions();
  // The same as the model has them: LossValues::scores of the batch's rows.
  std::span<const float> scores() const { return scores_; }

  // Sets a hook, starting with the next Step; an empty `f` removes it. Step calls `f` on its own thread, once
  // for each variable, when the variable's gradient is final: during back-propagation, last layers first, if
  // the plan runs inline on one thread; otherwise after back-propagation. The gradient is not clipped then,
  // and may be infinite or NaN; Step reports that when it returns. An empty batch makes no calls.
  void OnGradient(std::function<void(size_t variable)> f) { on_gradient_ = std::move(f); }

  // Forward and backward passes of later batches are recorded there; null: nowhere. To be set before the
  // first batch.
  void RecordTo(timeline::Track* track) { track_ = track; }

  // Later batches are computed with these values, of the same table. The former parameters are no longer
  // used.
  void UseParameters(protocol::Parameters& parameters);

  // Scores of all batches so far; binary tasks only.
  const metrics::AucCounts& scores_seen() const { return scores_seen_; }
  const metrics::AucCounts& truths_seen() const { return truths_seen_; }

 private:
  struct Compiled {
    // A graph for training and one for scoring, over the same memory.
    struct Half {
      nn::StepGraph step;
      std::unique_ptr<engine::Plan> plan;
      const float* gradients = nullptr;  // the gradient memory that the plan is bound to
    };
    Half train, score;
    Tensor features, labels, weights, random_seed;
    uint32_t filled = 0;  // rows of weight 1
  };
  // Compiles only the graph that is asked for: workers never score alone, and an evaluation never trains.
  Compiled& For(uint32_t batch_size, bool training);
  void BindValues(Compiled::Half& half);
  void BindGradients(Compiled::Half& half);
  void SetHooks(const Compiled::Half& half);
  void Fill(Compiled& compiled, const Rows& rows, std::span<const uint32_t> batch);
  static std::span<const float> ScoresOf(const Compiled& compiled, const Compiled::Half& half, size_t rows);
  StepOutcome Measure(const Compiled& compiled, const Compiled::Half& half, const Rows& rows,
                      std::span<const uint32_t> batch, bool finite);

  const nn::Model& model_;
  protocol::Parameters* parameters_;
  engine::PlanOptions options_;
  optim::Clipping clipping_;
  void RunTraining(Compiled& compiled);

  std::function<void(size_t)> on_gradient_;
  timeline::Track* track_ = nullptr;
  Time forward_end_{0};  // end of the batch's forward pass, if it is recorded
  float largest_ = 0;    // largest gradient of this step so far, if gradients are not clipped
  std::map<uint32_t, Compiled> compiled_;
  uint32_t plans_ = 0;
  metrics::AucCounts scores_seen_;
  metrics::AucCounts truths_seen_;
  std::vector<float> positive_;
  bool by_inference_ = false;
  std::span<const float> scores_;  // scores of the last batch
};

// ---- runs of batches

// The position of a batch in its run (see protocol::Compute).
struct RunPart {
  bool first = true;
  bool last = true;
  uint64_t version = 0;  // version of the parameters before the run
  float rate = 1;        // factor on the learning rate of local updates
};

// Trains runs of batches. The strategy decides what a worker pushes for a run:
//
// - runs of one batch: the batch's gradient, as Trainer computes it;
// - downpour (Dean et al. 2012): the sum of the run's gradients. Each batch also updates the local parameters
//   by its own gradient, until new values arrive from the servers;
// - averaging: the parameters before the run minus those after it. Each batch updates the local parameters.
//   Servers subtract the mean over all lanes, which yields the average of the parameters. After the run the
//   local parameters are restored.
//
// A local update is plain sgd with the job's learning rate and schedule, and with its weight decay if the
// job's optimizer is sgd. Statistics (of batch normalisation) and moments follow each batch, as on servers.
// Each strategy pushes the moments of the run's batches, merged in their order.
//
// Not thread-safe. A step allocates nothing.
class RunTrainer {
 public:
  // `trainer` works on `parameters`; both must outlive this. `optimizer` is the job's.
  RunTrainer(Trainer& trainer, protocol::Parameters& parameters, const protocol::StrategyConfig& strategy,
             const optim::OptimizerConfig& optimizer);

  // Trains one batch, like Trainer::Step. After the last batch of a run, the parameters' gradients hold what
  // to push. During a run, the caller must not write to the gradients, nor (downpour, averaging) take the
  // values for those of the servers.
  //
  // A batch that is not finite ends the run: the caller pushes nothing, and the values are those after the
  // batch before it (averaging: before the run). A run whose sum is not finite ends the same way at its last
  // batch. A run may be abandoned between two batches; the caller then has to replace the values.
  StepOutcome Step(const Rows& rows, std::span<const uint32_t> batch, uint32_t batch_size,
                   uint64_t random_seed, const RunPart& part);

 private:
  StepOutcome StepOfSum(const Rows& rows, std::span<const uint32_t> batch, uint32_t batch_size,
                        uint64_t random_seed, const RunPart& part);
  StepOutcome StepOfChange(const Rows& rows, std::span<const uint32_t> batch, uint32_t batch_size,
                           uint64_t random_seed, const RunPart& part);
  void LocalStep(uint64_t step, float rate);
  void KeepMoments();
  void PutMoments();

  Trainer& trainer_;
  protocol::Parameters& parameters_;
  protocol::StrategyConfig strategy_;
  std::vector<optim::OptimizerConfig> rules_;  // rules of local updates, by variable
  std::optional<size_t> moments_variable_;
  std::vector<float> moments_;  // moments of the run's batches so far
  Buffer kept_;                 // averaging: values before the run; downpour: the sum so far
  bool any_ = false;            // downpour: the sum is not empty
  uint32_t done_ = 0;           // batches of the run that are trained
};

}  // namespace leat::step
