// Lengths of padded sequences.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// ids i32[batch, time] → i32[batch]: the length of each row without the trailing ids equal to `padding`.
struct SequenceLengths final : Named<WithoutGradient<Op>, "sequence_lengths"> {
  explicit SequenceLengths(int32_t p) : padding(p) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  std::string attributes() const override { return "padding=" + std::to_string(padding); }

  const int32_t padding;
};

}  // namespace leat::ops
