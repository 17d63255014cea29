#include "ops/elementwise/arithmetic.h"

namespace leat::ops {

InputGrads Sign::Gradient(Graph&, const Node&, OutputGrads) const {
  return {std::nullopt};
}

}  // namespace leat::ops
