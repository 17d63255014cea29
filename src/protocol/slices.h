// Variables cut into slices; placement.h says where they go.
//
// The table is fixed when the job is created: slices move, they never merge or split. The slice is the unit
// that is placed, moved, saved, and has a ledger.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "optim/init.h"

namespace leat::protocol {

struct SliceSpec {
  uint32_t variable = 0;  // place in SliceTable::variables
  uint64_t begin = 0;     // elements [begin, end) of the variable, row-major
  uint64_t end = 0;
  uint64_t elements() const { return end - begin; }
  friend bool operator==(const SliceSpec&, const SliceSpec&) = default;
};

struct SliceTable {
  uint64_t seed = 0;  // of the variables' initial values
  std::vector<optim::VariableSpec> variables;
  std::vector<SliceSpec> slices;  // slice id = place; ordered by variable, then begin
  friend bool operator==(const SliceTable&, const SliceTable&) = default;
};

// Cuts variables into contiguous slices of at most `max_slice_bytes`, at least 12 × `max_servers` in all
// where the elements allow, the largest variables being cut finest. Slice borders fall on multiples of 16
// elements where they can.
SliceTable MakeSlices(std::vector<optim::VariableSpec> variables, uint64_t seed, uint32_t max_servers,
                      uint64_t max_slice_bytes = 1 << 20);

// Each variable one slice: for an optimizer that looks at whole variables (optim::NeedsWholeVariables).
SliceTable MakeWholeSlices(std::vector<optim::VariableSpec> variables, uint64_t seed);

}  // namespace leat::protocol
