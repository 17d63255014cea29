// Runs of batches as a strategy trains them: what is pushed of a run, and the local steps in it.
//
// - one batch a run: its gradient, as Trainer leaves it;
// - downpour (Dean et al. 2012): the sum of the gradients of the run's batches; after each batch the values
// in
//   memory take a local step by its own gradient, until others come from the servers;
// - averaging: the values in memory take a local step after each batch; what is pushed is what they were
//   before the run minus what they are after it, so that servers that subtract the lanes' mean have the
//   average; then memory is as it was before the run.
//
// A local step is plain sgd at the job's learning rate, with its schedule; with the job's weight decay too
// where the job's optimizer is sgd. Statistics move by what the batch says, as on servers.
//
// Not thread-safe. A step allocates nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "optim/optimizer.h"
#include "protocol/strategy.h"
#include "step/trainer.h"

namespace leat::trainer {

// A batch's place in its run (as protocol::Compute says it).
struct RunPart {
  bool first = true;
  bool last = true;
  uint64_t version = 0;  // of the values before the run
};

class RunTrainer {
 public:
  // `trainer` is one on `parameters`; both must outlive it. `optimizer`: the job's.
  RunTrainer(Trainer& trainer, protocol::Parameters& parameters, const protocol::StrategyConfig& strategy,
             const optim::OptimizerConfig& optimizer);

  // Trains one batch, as Trainer::Step. After the last of a run its payload lies in the parameters'
  // gradients; until then nothing else may be written there or, in the last two cases, read from values as
  // the servers'. A batch that is not finite ends the run: nothing of it is to be pushed, and values are as
  // after the batch before it (averaging: as before the run). Neither is the last of a run whose sum is not
  // finite. A run may be given up between two batches: the values in memory are to be replaced then.
  StepOutcome Step(const Rows& rows, std::span<const uint32_t> batch, uint32_t batch_size,
                   uint64_t random_seed, const RunPart& part);

 private:
  StepOutcome StepOfSum(const Rows& rows, std::span<const uint32_t> batch, uint32_t batch_size,
                        uint64_t random_seed, const RunPart& part);
  StepOutcome StepOfChange(const Rows& rows, std::span<const uint32_t> batch, uint32_t batch_size,
                           uint64_t random_seed, const RunPart& part);
  void LocalStep(uint64_t step);

  Trainer& trainer_;
  protocol::Parameters& parameters_;
  protocol::StrategyConfig strategy_;
  std::vector<optim::OptimizerConfig> rules_;  // of local steps, by variable
  Buffer kept_;                                // averaging: values before the run; downpour: the sum so far
  bool any_ = false;                           // downpour: the sum is of something
  uint32_t done_ = 0;                          // batches of the run
};

}  // namespace leat::trainer
