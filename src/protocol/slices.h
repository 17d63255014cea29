// Division of variables into slices; placement.h assigns them to servers.
//
// The table is fixed when the job is created: slices move, but never merge or split. A slice is the unit of
// placement, moving and saving, and has its own ledger.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "compute/optim/init.h"

namespace leat::protocol {

struct SliceSpec {
  uint32_t variable = 0;  // index in SliceTable::variables
  uint64_t begin = 0;     // elements [begin, end) of the variable, row-major
  uint64_t end = 0;
  uint64_t elements() const { return end - begin; }
  friend bool operator==(const SliceSpec&, const SliceSpec&) = default;
};

struct SliceTable {
  uint64_t seed = 0;  // seed of the variables' initial values
  std::vector<optim::VariableSpec> variables;
  std::vector<SliceSpec> slices;  // by slice id; ordered by variable, then begin
  friend bool operator==(const SliceTable&, const SliceTable&) = default;
};

// Divides variables into contiguous slices of at most `max_slice_bytes`, and into at least 12 × `max_servers`
// slices if there are enough elements, dividing the largest variables most. Slice boundaries are multiples of
// 16 elements where possible. Moments are one slice, however large: their words belong together.
SliceTable MakeSlices(std::vector<optim::VariableSpec> variables, uint64_t seed, uint32_t max_servers,
                      uint64_t max_slice_bytes = 1 << 20);

// The variable of the role kMoments, if there is one.
std::optional<size_t> MomentsVariable(const SliceTable& table);

// Makes each variable one slice, for an optimizer that needs whole variables (optim::NeedsWholeVariables).
SliceTable MakeWholeSlices(std::vector<optim::VariableSpec> variables, uint64_t seed);

}  // namespace leat::protocol
