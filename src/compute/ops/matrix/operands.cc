#include "compute/ops/matrix/operands.h"

#include <stdexcept>

namespace leat::ops {

void CheckOperands(Types inputs) {
  const bool narrow = inputs[0].dtype == DType::kBf16 && inputs[1].dtype == DType::kBf16;
  if (narrow) {
    graph::CheckF32(inputs.subspan(2));
  } else if (inputs[0].dtype == DType::kBf16 || inputs[1].dtype == DType::kBf16) {
    throw std::invalid_argument("operands are " + inputs[0].ToString() + " and " + inputs[1].ToString() +
                                "; must have the same type");
  } else {
    graph::CheckF32(inputs);
  }
}

}  // namespace leat::ops
