#include "compute/graph/kernel.h"

#include <utility>

#include "base/check.h"

namespace leat::graph {

void KernelTable::Add(std::string_view op, KernelFactory factory) {
  const bool is_new = factories.emplace(op, std::move(factory)).second;
  LEAT_CHECK(is_new);
}

}  // namespace leat::graph
