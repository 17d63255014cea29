#include "compute/optim/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"

namespace leat::optim {
namespace {

constexpr size_t kRows = 50, kWidth = 7;

// A table with its slots.
struct Table {
  explicit Table(const OptimizerConfig& config) : values(kRows * kWidth) {
    Rng rng(1);
    for (float& v : values) v = static_cast<float>(rng.Normal());
    for (size_t s = 0; s < SlotNames(config).size(); ++s) {
      slots.emplace_back(kRows * kWidth, InitialSlot(config, s));
    }
  }
  std::vector<std::span<float>> spans() { return {slots.begin(), slots.end()}; }

  std::vector<float> values;
  std::vector<std::vector<float>> slots;
};

struct Batch {
  explicit Batch(uint64_t seed, size_t count = 40) {
    Rng rng(seed);
    for (size_t i = 0; i < count; ++i) {
      // Some ids repeat, some are outside the table.
      ids.push_back(static_cast<int32_t>(rng.Below(kRows / 2 + 4)) - 2 + (rng.Chance(0.1) ? 40 : 0));
      for (size_t j = 0; j < kWidth; ++j) rows.push_back(static_cast<float>(rng.Normal()));
    }
  }
  RowGradient gradient() const { return {kWidth, ids, rows}; }
  bool Touches(size_t row) const { return std::ranges::count(ids, static_cast<int32_t>(row)) > 0; }
  // The result of embedding_grad.
  std::vector<float> Dense() const {
    std::vector<float> dense(kRows * kWidth, 0.0f);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0 || static_cast<size_t>(ids[i]) >= kRows) continue;
      for (size_t j = 0; j < kWidth; ++j) {
        dense[static_cast<size_t>(ids[i]) * kWidth + j] += rows[i * kWidth + j];
      }
    }
    return dense;
  }

  std::vector<int32_t> ids;
  std::vector<float> rows;
};

TEST(ApplyRows, IsTheDenseUpdateBitForBitWhereOtherRowsRest) {
  for (const Kind kind : {Kind::kSgd, Kind::kAdagrad}) {
    OptimizerConfig config = Defaults(kind);
    config.learning_rate = 0.1f;
    Table dense(config), sparse(config);
    RowScratch scratch;
    for (uint64_t step = 1; step <= 20; ++step) {
      const Batch batch(step);
      Apply(config, dense.values, batch.Dense(), dense.spans(), step, 0.5f);
      ApplyRows(config, batch.gradient(), sparse.values, sparse.spans(), step, 0.5f, &scratch);
      EXPECT_EQ(dense.values, sparse.values) << Name(kind);
      EXPECT_EQ(dense.slots, sparse.slots) << Name(kind);
    }
  }
}

// Rows whose ids occur are updated like in a dense update; the others keep values and slots.
TEST(ApplyRows, LeavesOtherRowsAloneWhateverTheOptimizer) {
  for (const Kind kind : {Kind::kSgd, Kind::kMomentum, Kind::kNesterov, Kind::kAdagrad, Kind::kRmsprop,
                          Kind::kAdam, Kind::kAdamW}) {
    OptimizerConfig config = Defaults(kind);
    config.weight_decay = 0.1f;
    Table dense(config), sparse(config);
    const Table before(config);
    const Batch batch(3);
    RowScratch scratch;
    Apply(config, dense.values, batch.Dense(), dense.spans(), 1, 1);
    const size_t touched = ApplyRows(config, batch.gradient(), sparse.values, sparse.spans(), 1, 1, &scratch);
    size_t expected = 0;
    for (size_t row = 0; row < kRows; ++row) {
      const bool touches = batch.Touches(row);
      expected += touches ? 1 : 0;
      const auto part = [&](const std::vector<float>& all) {
        return std::vector(all.begin() + static_cast<ptrdiff_t>(row * kWidth),
                           all.begin() + static_cast<ptrdiff_t>((row + 1) * kWidth));
      };
      EXPECT_EQ(part(sparse.values), part(touches ? dense.values : before.values)) << Name(kind) << row;
      for (size_t s = 0; s < sparse.slots.size(); ++s) {
        EXPECT_EQ(part(sparse.slots[s]), part(touches ? dense.slots[s] : before.slots[s])) << Name(kind);
      }
    }
    EXPECT_EQ(touched, expected);
  }
}

TEST(ApplyRows, OfNothingChangesNothing) {
  const OptimizerConfig config = Defaults(Kind::kAdam);
  Table table(config);
  const Table before(config);
  RowScratch scratch;
  EXPECT_EQ(ApplyRows(config, {kWidth, {}, {}}, table.values, table.spans(), 1, 1, &scratch), 0u);
  const std::vector<int32_t> outside = {-1, kRows, INT32_MAX, INT32_MIN};
  const std::vector<float> rows(outside.size() * kWidth, 1.0f);
  EXPECT_EQ(ApplyRows(config, {kWidth, outside, rows}, table.values, table.spans(), 1, 1, &scratch), 0u);
  EXPECT_EQ(table.values, before.values);
}

}  // namespace
}  // namespace leat::optim
