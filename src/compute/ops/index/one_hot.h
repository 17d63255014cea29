// Op for one-hot encoding.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// Input indices (i32 or i64) of any shape; output f32[..., depth]. Negative indices count from the end; an
// index out of range gives a row of zeros. No gradient flows.
struct OneHot final : Named<WithoutGradient<Op>, "one_hot"> {
  explicit OneHot(int64_t d) : depth(d) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  std::string attributes() const override { return "depth=" + std::to_string(depth); }

  const int64_t depth;
};

}  // namespace leat::ops
