// Helpers for tests of shape rules.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "compute/ops/op.h"

namespace leat::ops {

inline TensorType F32(Shape shape) {
  return {DType::kF32, shape};
}

// The message with which the op rejects these input types, or "accepted".
inline std::string Refusal(const Op& op, std::vector<TensorType> inputs) {
  try {
    op.Infer(inputs);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "accepted";
}

}  // namespace leat::ops
