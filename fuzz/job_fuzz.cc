// Any text is a model or fails with one line. A small model builds and runs.
#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/config/config.h"
#include "compute/engine/plan.h"
#include "compute/kernels/reference/reference.h"
#include "compute/nn/model.h"
#include "graphs.h"

namespace {

constexpr uint32_t kBatch = 2;

void Run(const leat::nn::Model& model) {
  if (model.parameters() > 1 << 16 || model.inputs() > 1 << 16) return;
  const auto step = model.Build(kBatch);
  if (!leat::fuzz::IsSmall(step.graph)) return;
  auto fetches = step.gradients;
  fetches.push_back(step.scores);
  leat::engine::PlanOptions options;
  options.tables = {&leat::reference::Kernels()};
  const auto plan = leat::engine::Plan::Compile(step.graph, fetches, options);
  std::vector<leat::Tensor> memory;
  for (const auto feed : plan->feeds()) {
    memory.emplace_back(step.graph.type(feed));
    plan->Bind(feed, memory.back().raw());
  }
  plan->Run();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto config = leat::Config::Parse({reinterpret_cast<const char*>(data), size}, "fuzz");
    Run(leat::nn::Model::FromConfig(config, {.features = 0}));
  } catch (const std::invalid_argument& error) {
    LEAT_CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
  return 0;
}
