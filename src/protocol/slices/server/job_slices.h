// The slices of a job as a server makes them: settings, sizes, rules, memory and initial values. It has no
// slice itself. Rules are the slots and the update of each variable, and the steps that the strategy allows:
// pure functions of the job.
//
// Invariant: only `start` changes, once the coordinator has said where partitions start. What peers and files
// deliver is checked by Fits. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "compute/optim/mean.h"
#include "compute/optim/optimizer.h"
#include "compute/tensor/buffer.h"
#include "protocol/messages_control.h"
#include "protocol/messages_data.h"
#include "protocol/slice.h"
#include "protocol/slices.h"
#include "protocol/strategy.h"

namespace leat::protocol {

// Settings of a server, and what the shell provides.
struct ServerConfig {
  SliceTable table;                  // whole variables if the optimizer needs them
  optim::OptimizerConfig optimizer;  // averaging: applied to the average, with rate 1 and its momentum
  StrategyConfig strategy;
  // Modelled steps for the simulator: slices have sizes but no memory, and gradients have no payload.
  // Everything else is unchanged.
  bool modelled = false;
  Allocate allocate = {};  // for the values of slices, which are sent; null: ordinary memory
  // Not stepped, before the first update of a slice that is being saved. True: it is saved by now, and the
  // update overwrites its memory. False, or null: the update goes to new memory, and the old one is freed
  // with the save.
  std::function<bool(const Slice& slice)> saved = {};
  // Calls part(0) … part(count − 1) in any order and on any threads, and returns when all have returned;
  // null: sequentially. Results are bit-identical in all cases.
  std::function<void(size_t count, const std::function<void(size_t)>& part)> run_parts = {};
  // Limit of the encoded ledgers in one heartbeat. The rest follows in the next heartbeats.
  uint64_t max_report_bytes = 1 << 20;
};

// How the slices of one variable are updated.
struct SliceRule {
  optim::OptimizerConfig optimizer;
  uint32_t slots = 0;
  optim::MeanRule mean;
  bool whole = false;  // an update needs all elements at once
  optim::VariableRole role = optim::VariableRole::kTrained;
  bool moments() const { return role == optim::VariableRole::kMoments; }
  // Only what is trained has a learning rate.
  float RateOf(float rate) const { return role == optim::VariableRole::kTrained ? rate : 1.0f; }
  // Adds a lane's push to the sum of those before it; `first`: begins the sum. Moments are merged.
  void Add(bool first, std::span<float> sum, std::span<const float> pushed, float weight) const;
  // `slots` as of optim::Apply.
  void Apply(std::span<float> values, std::span<const float> pushed, std::span<const std::span<float>> slots,
             uint64_t version, float rate) const;
};

// Bytes of the values and slots of a slice.
inline uint64_t MemoryBytes(uint64_t elements, uint32_t slots) {
  return elements * (1 + slots) * sizeof(float);
}

// The strategy has steps of this width.
bool FitsStrategy(const StepLane& step_lane, const StrategyConfig& strategy);
// Backup workers: as many lanes count as the strategy says.
bool FitsStrategy(const DecidedStep& decided, const StrategyConfig& strategy);

class JobSlices {
 public:
  explicit JobSlices(ServerConfig config);
  JobSlices(const JobSlices&) = delete;  // the concerns of a server refer to it

  const ServerConfig& config() const { return config_; }
  bool stepped() const { return config_.strategy.stepped(); }
  size_t size() const { return config_.table.slices.size(); }
  const SliceRule& RuleOf(SliceId id) const { return rules_[config_.table.slices[id.value].variable]; }
  uint64_t ElementsOf(SliceId id) const { return config_.table.slices[id.value].elements(); }
  // The bytes of a slice's values and slots; none: the job has no such slice.
  std::optional<uint64_t> BytesOf(SliceId id) const;
  // Where each partition starts, for newly initialized slices; empty: not known yet.
  const std::vector<Position>& start() const { return start_; }
  void SetStart(const std::vector<Position>& start);
  // kDataLoss if the job has no such slice.
  Status Fits(const Slice& slice) const;

  Buffer NewMemory(uint64_t bytes) const {
    return config_.allocate ? config_.allocate(bytes) : Buffer(bytes);
  }
  void MoveToNewMemory(Slice* slice) const;  // other owners of the old memory keep it unchanged
  std::shared_ptr<Slice> Make(const SliceOrder& order) const;  // with initial values
  Slice InMemory(SliceId id, Buffer memory) const;             // a slice of the job in this memory

 private:
  const ServerConfig config_;
  std::vector<SliceRule> rules_;  // by variable
  std::vector<Position> start_;
};

}  // namespace leat::protocol
