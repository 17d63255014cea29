// What the workers of a virtual cluster compute: nothing (modelled steps), a count, or a real network.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "protocol/worker/worker.h"

namespace leat::sim {

struct Trained {
  protocol::BatchOutcome outcome;
  double loss_sum = 0;  // Σ over events, before training on them
  uint64_t correct = 0;
};

// One worker's values and gradients. It starts anew whenever the worker's process does.
class WorkerMemory {
 public:
  virtual ~WorkerMemory() = default;
  // Trains one batch of a lease on the values as they are. `first` as in protocol::Compute.
  virtual Trained Compute(const protocol::Lease& lease, uint32_t batch, bool first) = 0;
  // What is pushed of the run computed last (all-reduce: added to the step's sums): of all slices, one after
  // the other in the table's order. It is never changed any more: pushes that are on their way, or come
  // twice, share it.
  virtual std::shared_ptr<const std::vector<float>> Pushed() = 0;
  virtual void TakeValues(SliceId slice, uint64_t version, std::span<const float> values) = 0;
  // Fills in what heartbeats say beside events, losses and times.
  virtual void Tell(protocol::WorkerProgress* /*progress*/) const {}
};

class Workload {
 public:
  virtual ~Workload() = default;
  // Null: steps are modelled. Payloads have their sizes, and nothing is in them.
  virtual std::unique_ptr<WorkerMemory> Join() = 0;
};

// Every batch is good and full.
class ModelledWorkload final : public Workload {
 public:
  std::unique_ptr<WorkerMemory> Join() override { return nullptr; }
};

}  // namespace leat::sim
