#include "job/precision.h"

#include <algorithm>

#include "base/log.h"
#include "compute/ops/precision.h"

namespace leat::job {

engine::PlanOptions WithPrecision(const Job& job, engine::PlanOptions options) {
  if (!job.bf16) return options;
  if (std::ranges::any_of(options.tables, [](const auto* table) { return table->fast_bf16; })) {
    options.passes.push_back(ops::UseBf16());
  } else {
    spdlog::warn("train.precision is bf16, which this machine is not fast at: computing in f32");
  }
  return options;
}

}  // namespace leat::job
