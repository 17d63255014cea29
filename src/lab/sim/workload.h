// Computations of a virtual cluster's workers: nothing (modelled steps), counts, or a real network.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "protocol/coordinator/coordinator.h"
#include "protocol/worker/worker.h"

namespace leat::sim {

struct Trained {
  protocol::BatchOutcome outcome;
  double loss_sum = 0;  // Σ over events, before training on them
  uint64_t correct = 0;
};

// A worker's values and gradients. Replaced whenever the worker's process restarts.
class WorkerMemory {
 public:
  virtual ~WorkerMemory() = default;
  // Trains one batch of a lease on the current values. `first` as in protocol::Compute.
  virtual Trained Compute(const protocol::Lease& lease, uint32_t batch, bool first) = 0;
  // The data to push for the last computed run (all-reduce: to be added to the step's sums), for all slices
  // in table order. Immutable, because pushes in transit and duplicates share it.
  virtual std::shared_ptr<const std::vector<float>> Pushed() = 0;
  virtual void TakeValues(SliceId slice, uint64_t version, std::span<const float> values) = 0;
  // Fills in the fields of a heartbeat other than events, losses and times.
  virtual void FillProgress(protocol::WorkerProgress* /*progress*/) const {}
};

class Workload {
 public:
  virtual ~Workload() = default;
  // Null: steps are modelled. Payloads have sizes but no contents.
  virtual std::unique_ptr<WorkerMemory> Join() = 0;
  // Steps from this one on have another number of lanes. They may have been trained before a rollback.
  virtual void OnLanes(const protocol::LanesSet& /*set*/) {}
};

// Every batch is good and full.
class ModelledWorkload final : public Workload {
 public:
  std::unique_ptr<WorkerMemory> Join() override { return nullptr; }
};

}  // namespace leat::sim
