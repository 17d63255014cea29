// All parameters with their optimizer's state and one ledger, as a worker keeps them where there are no
// servers: what a step changes, what a checkpoint saves, what a new member of a group is sent.
//
// The values are those of the worker's Parameters, which the model computes with; slots are kept here. A
// step does to each slice what a server would do to it, bit for bit. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "optim/mean.h"
#include "optim/optimizer.h"
#include "protocol/parameters.h"
#include "protocol/slice.h"
#include "protocol/strategy.h"

namespace leat::protocol {

class TrainingState {
 public:
  // Everything but the numbers: the same for all slices.
  struct Header {
    uint64_t step = 0;    // steps completed, skipped ones too
    uint64_t events = 0;  // good records in those that were applied
    Ledger ledger;
    friend bool operator==(const Header&, const Header&) = default;
  };

  // `parameters` must outlive it; null: sizes alone, nothing is computed with (modelled steps).
  TrainingState(const SliceTable& table, const optim::OptimizerConfig& optimizer,
                const StrategyConfig& strategy, Parameters* parameters);

  const Header& header() const { return header_; }
  // Slots of the slice's optimizer.
  uint32_t SlotsOf(SliceId slice) const { return slices_[slice.value].slots; }

  // Initial values, an empty ledger.
  void Make(const std::vector<Position>& start);
  // A checkpoint's slices, all of them, of one step and with one ledger. Otherwise kDataLoss, or
  // kFailedPrecondition for what a strategy of independent pushes has left, and nothing is changed.
  Status Take(const std::vector<Slice>& slices, size_t partitions);

  // Values of all slices, then their slots, in a canonical order: what another member is sent. Empty when
  // modelled.
  std::vector<std::span<const float>> Memory() const;
  uint64_t floats() const { return floats_; }
  // The counterpart: `memory` is all of it, in that order. kDataLoss when its size is another.
  Status Adopt(Header header, std::span<const float> memory, size_t partitions);

  // One step with what the parameters hold as gradients, or what these terms add up to: Σ weight · gradient
  // over all lanes (optim/mean.h), which have so many events, above 0. The gradients are changed where there
  // are no terms.
  void Apply(uint64_t events, const GradientTerms& terms = {});
  // The step is complete, applied or not: its runs are in the ledger by now.
  void Complete(uint64_t events) {
    ++header_.step;
    header_.events += events;
  }
  Ledger& ledger() { return header_.ledger; }

  // Copies to be saved.
  std::shared_ptr<const Slice> Copy(SliceId slice, Incarnation incarnation) const;

 private:
  struct Part {
    optim::OptimizerConfig rule;
    optim::MeanRule mean;
    bool whole = false;  // is updated as a whole
    uint32_t slots = 0;
    uint64_t elements = 0;
    Buffer memory;  // slots, one after the other
    std::span<float> slot(uint32_t i) const;
  };

  // Where the terms of what is updated as a whole are added up; kept from step to step.
  std::span<float> WholeRoom(uint64_t elements);

  SliceTable table_;
  Parameters* parameters_;
  std::vector<Part> slices_;
  uint64_t floats_ = 0;
  Buffer whole_;
  Header header_;
};

}  // namespace leat::protocol
