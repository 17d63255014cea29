// What tests of shape rules share.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "ops/op.h"

namespace leat::ops {

inline TensorType F32(Shape shape) {
  return {DType::kF32, shape};
}

// What the op says against inputs of these types.
inline std::string Refusal(const Op& op, std::vector<TensorType> inputs) {
  try {
    op.Infer(inputs);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "accepted";
}

}  // namespace leat::ops
