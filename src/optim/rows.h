// Updates of those rows of a table that a batch touched: an embedding's gradient need not become a tensor as
// large as the table.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "optim/optimizer.h"

namespace leat::optim {

// Row i of `rows` [ids.size(), width] belongs to row ids[i] of a table; an id may occur any number of times,
// and its gradient is the sum of its rows. Ids outside of the table count for nothing.
struct RowGradient {
  size_t width = 0;
  std::span<const int32_t> ids;
  std::span<const float> rows;
};

// Memory of ApplyRows, kept between calls so that after the first ones nothing is allocated. One call at a
// time may use it.
struct RowScratch {
  std::vector<uint64_t> order;
  std::vector<float> gradient, values;
  std::vector<float> slots[kMaxSlots];
};

// Apply (optimizer.h) to the rows that occur, of `values` [rows, width] and of each slot, and to nothing
// else; returns how many these are. Sums are taken in the order of the rows, so for sgd and adagrad without
// weight decay the result is bit for bit that of the table-sized gradient, in which all other rows are zero.
// With decay, and for optimizers with moments, rows that do not occur are left alone where the dense update
// would go on changing them (the lazy variants of other frameworks): they are decayed when they occur. Not
// for optimizers that need whole variables.
size_t ApplyRows(const OptimizerConfig& config, const RowGradient& gradient, std::span<float> values,
                 std::span<const std::span<float>> slots, uint64_t step, float scale, RowScratch* scratch);

}  // namespace leat::optim
