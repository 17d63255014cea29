// All parameters with their optimizer state and one ledger, as each member of an all-reduce job keeps them:
// the state that a step changes, a checkpoint saves, and a new member receives.
//
// The values are in the worker's Parameters, which the model computes with; optimizer slots are stored here.
// A step updates each slice exactly as a server would, bit for bit. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "compute/optim/mean.h"
#include "compute/optim/optimizer.h"
#include "protocol/parameters.h"
#include "protocol/slice.h"
#include "protocol/strategy.h"

namespace leat::protocol {

class TrainingState {
 public:
  // Everything except the numbers; equal for all slices.
  struct Header {
    uint64_t step = 0;    // steps completed, including skipped ones
    uint64_t events = 0;  // good records in the steps applied
    Ledger ledger;
  };

  // `parameters` must outlive the state; null: only sizes, without computation (modelled steps).
  TrainingState(const SliceTable& table, const optim::OptimizerConfig& optimizer,
                const StrategyConfig& strategy, Parameters* parameters);

  const Header& header() const { return header_; }
  // The number of optimizer slots of the slice.
  uint32_t SlotsOf(SliceId slice) const { return slices_[slice.value].slots; }

  // Sets initial values and an empty ledger.
  void Make(const std::vector<Position>& start);
  // Takes all slices of a checkpoint. They must be of one step and have one ledger: otherwise kDataLoss, or
  // kFailedPrecondition for a checkpoint of an asynchronous strategy; then nothing is changed.
  Status Take(const std::vector<Slice>& slices, size_t partitions);

  // The values of all slices, then their slots, in a canonical order, to be sent to another member. Empty if
  // modelled.
  std::vector<std::span<const float>> Memory() const;
  uint64_t floats() const { return floats_; }
  // The inverse: `memory` has all numbers in that order. kDataLoss if its size is wrong.
  Status Adopt(Header header, std::span<const float> memory, size_t partitions);

  // Applies one step, with the parameters' gradients or, if there are any, the sum of `terms`: Σ weight ·
  // gradient over all lanes (compute/optim/mean.h), which have `events` > 0 events. Changes the gradients
  // unless there are terms. `rate`: factor on the learning rate. `moments`: those of all lanes, merged in
  // their order; only if the job has a variable of the role kMoments.
  void Apply(uint64_t events, const GradientTerms& terms = {}, float rate = 1,
             std::span<const float> moments = {});
  // Completes the step, applied or not; its runs are already in the ledger.
  void Complete(uint64_t events) {
    ++header_.step;
    header_.events += events;
  }
  Ledger& ledger() { return header_.ledger; }

  // A copy to be saved.
  // `allocate`: for its memory; null: ordinary memory.
  std::shared_ptr<const Slice> Copy(SliceId slice, Incarnation incarnation,
                                    const Allocate& allocate = {}) const;
  uint64_t BytesOf(SliceId slice) const;  // bytes of its values and slots

 private:
  struct Part {
    optim::OptimizerConfig rule;
    optim::MeanRule mean;
    bool whole = false;                                        // is updated as a whole
    optim::VariableRole role = optim::VariableRole::kTrained;  // others have no learning rate
    uint32_t slots = 0;
    uint64_t elements = 0;
    Buffer memory;  // slots, one after the other
    std::span<float> slot(uint32_t i) const;
  };

  // Memory for the sum of the terms of a variable that is updated as a whole; reused by later steps.
  std::span<float> WholeRoom(uint64_t elements);

  SliceTable table_;
  Parameters* parameters_;
  std::vector<Part> slices_;
  uint64_t floats_ = 0;
  Buffer whole_;
  Header header_;
};

LEAT_FIELDS(TrainingState::Header, (step), (events), (ledger));

}  // namespace leat::protocol
