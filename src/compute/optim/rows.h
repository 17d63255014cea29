// Sparse updates: apply an embedding gradient only to the rows of the table that a batch used, without a
// table-sized gradient tensor.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compute/optim/optimizer.h"

namespace leat::optim {

// Row i of `rows` [ids.size(), width] is a gradient of row ids[i] of the table. Ids may repeat; their rows
// are summed. Ids outside the table are ignored.
struct RowGradient {
  size_t width = 0;
  std::span<const int32_t> ids;
  std::span<const float> rows;
};

// Working memory of ApplyRows. Reuse it between calls to avoid allocations. Not thread-safe.
struct RowScratch {
  std::vector<uint64_t> order;
  std::vector<float> gradient, values;
  std::vector<float> slots[kMaxSlots];
};

// Applies the optimizer (optimizer.h) to the rows of `values` [rows, width] and of each slot whose ids occur,
// and returns their number. Rows are summed in order, so for sgd and adagrad without weight decay the result
// is bitwise equal to a dense update. With weight decay or moments, a dense update would also change the
// other rows; this one updates a row only when its id occurs, as the lazy optimizers of other frameworks do.
// Must not be used if NeedsWholeVariables(config).
size_t ApplyRows(const OptimizerConfig& config, const RowGradient& gradient, std::span<float> values,
                 std::span<const std::span<float>> slots, uint64_t step, float scale, RowScratch* scratch);

}  // namespace leat::optim
