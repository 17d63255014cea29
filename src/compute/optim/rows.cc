#include "compute/optim/rows.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/check.h"

namespace leat::optim {
namespace {

// Packs id and position of each valid row into one number and sorts them: by id, then by position.
void Sort(std::span<const int32_t> ids, size_t rows, std::vector<uint64_t>* order) {
  order->clear();
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || static_cast<size_t>(ids[i]) >= rows) continue;
    order->push_back(uint64_t{static_cast<uint32_t>(ids[i])} << 32 | i);
  }
  std::ranges::sort(*order);
}

size_t IdOf(uint64_t key) {
  return key >> 32;
}

// Sums the rows of each id. Afterwards `order` holds each id once.
void SumRows(const RowGradient& gradient, std::vector<uint64_t>* order, std::vector<float>* sums) {
  const size_t width = gradient.width;
  sums->assign(order->size() * width, 0.0f);
  size_t distinct = 0;
  for (size_t i = 0; i < order->size(); ++i) {
    const uint64_t key = (*order)[i];
    if (distinct == 0 || IdOf(key) != IdOf((*order)[distinct - 1])) (*order)[distinct++] = key;
    const float* row = gradient.rows.data() + static_cast<uint32_t>(key) * width;
    float* sum = sums->data() + (distinct - 1) * width;
    for (size_t j = 0; j < width; ++j) sum[j] += row[j];
  }
  order->resize(distinct);
  sums->resize(distinct * width);
}

void Gather(std::span<const float> table, size_t width, std::span<const uint64_t> order,
            std::vector<float>* rows) {
  rows->resize(order.size() * width);
  for (size_t i = 0; i < order.size(); ++i) {
    std::ranges::copy(table.subspan(IdOf(order[i]) * width, width),
                      rows->begin() + static_cast<ptrdiff_t>(i * width));
  }
}

void Scatter(std::span<const float> rows, size_t width, std::span<const uint64_t> order,
             std::span<float> table) {
  for (size_t i = 0; i < order.size(); ++i) {
    std::ranges::copy(rows.subspan(i * width, width),
                      table.begin() + static_cast<ptrdiff_t>(IdOf(order[i]) * width));
  }
}

}  // namespace

size_t ApplyRows(const OptimizerConfig& config, const RowGradient& gradient, std::span<float> values,
                 std::span<const std::span<float>> slots, uint64_t step, float scale, RowScratch* scratch) {
  const size_t width = gradient.width;
  LEAT_CHECK(!NeedsWholeVariables(config) && slots.size() <= kMaxSlots);
  LEAT_CHECK(gradient.rows.size() == gradient.ids.size() * width && gradient.ids.size() <= UINT32_MAX);
  LEAT_CHECK(width > 0 ? values.size() % width == 0 : values.empty());
  for (const auto& slot : slots) LEAT_CHECK(slot.size() == values.size());
  if (width == 0) return 0;

  Sort(gradient.ids, values.size() / width, &scratch->order);
  SumRows(gradient, &scratch->order, &scratch->gradient);
  const std::vector<uint64_t>& order = scratch->order;
  // Copies the rows to contiguous memory, so that the update is one long loop.
  Gather(values, width, order, &scratch->values);
  std::array<std::span<float>, kMaxSlots> gathered;
  for (size_t s = 0; s < slots.size(); ++s) {
    Gather(slots[s], width, order, &scratch->slots[s]);
    gathered[s] = scratch->slots[s];
  }
  Apply(config, scratch->values, scratch->gradient, std::span(gathered).first(slots.size()), step, scale);
  Scatter(scratch->values, width, order, values);
  for (size_t s = 0; s < slots.size(); ++s) Scatter(gathered[s], width, order, slots[s]);
  return order.size();
}

}  // namespace leat::optim
