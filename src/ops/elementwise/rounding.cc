#include "ops/elementwise/arithmetic.h"

namespace leat::ops {

InputGrads RoundingOp::Gradient(Graph&, const Node&, OutputGrads) const {
  return {std::nullopt};
}

}  // namespace leat::ops
