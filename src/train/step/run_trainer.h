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
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compute/optim/optimizer.h"
#include "protocol/strategy.h"
#include "train/step/trainer.h"

namespace leat::step {

// The position of a batch in its run (see protocol::Compute).
struct RunPart {
  bool first = true;
  bool last = true;
  uint64_t version = 0;  // version of the parameters before the run
  float rate = 1;        // factor on the learning rate of local updates
};

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
