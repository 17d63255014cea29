// Any bytes import as a network or fail with one line. A small network is built with its gradients and run.
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "compute/engine/plan.h"
#include "compute/graph/graph.h"
#include "compute/kernels/reference/reference.h"
#include "compute/onnx/network.h"
#include "compute/ops/ops.h"
#include "graphs.h"

namespace {

constexpr int64_t kBatch = 2;

// The shape of a row in the file, with 4 for open sizes.
leat::Shape RowOf(const leat::onnx::File& file) {
  std::vector<int64_t> sizes;
  for (size_t i = 1; i < file.input.sizes.size(); ++i) {
    sizes.push_back(std::min<int64_t>(file.input.sizes[i].value_or(4), 1 << 12));
  }
  return leat::Shape(std::span<const int64_t>(sizes));
}

void Run(const leat::onnx::Network& network, const leat::Shape& row) {
  using namespace leat;
  graph::Graph graph;
  const auto leaf = [&](DType type, const Shape& shape) {
    return graph.Make<graph::Placeholder>({}, TensorType{type, shape});
  };
  std::vector<int64_t> sizes = {kBatch};
  sizes.insert(sizes.end(), row.sizes().begin(), row.sizes().end());
  nn::StepContext step{.training = true,
                       .weights = leaf(DType::kF32, Shape{kBatch}),
                       .random_seed = leaf(DType::kI64, Shape{}),
                       .statistics = {}};
  const auto x = leaf(DType::kF32, Shape(std::span<const int64_t>(sizes)));
  std::vector<graph::Value> variables, trained;
  for (const auto& spec : network.variables("v")) {
    variables.push_back(graph.Make<graph::Variable>({}, TensorType{DType::kF32, spec.shape}));
    if (spec.role == optim::VariableRole::kTrained) trained.push_back(variables.back());
  }
  const auto y = network.Apply(graph, x, variables, step);
  const auto loss = graph.Make<ops::ReduceSum>({y});
  auto fetches = graph::Gradients(graph, loss, trained);
  fetches.push_back(y);
  if (!leat::fuzz::IsSmall(graph)) return;
  engine::PlanOptions options;
  options.tables = {&reference::Kernels()};
  const auto plan = engine::Plan::Compile(graph, fetches, options);
  std::vector<Tensor> memory;
  for (const auto feed : plan->feeds()) {
    memory.emplace_back(graph.type(feed));
    const Tensor& tensor = memory.back();
    if (tensor.dtype() == DType::kF32) {
      for (auto& element : tensor.as<float>()) element = static_cast<float>(memory.size() % 5);
    }
    plan->Bind(feed, tensor.raw());
  }
  plan->Run();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const auto row = RowOf(leat::onnx::ParseFile(bytes, "fuzz"));
    if (row.elements() > 1 << 16) return 0;
    Run(*leat::onnx::Network::Import(bytes, "fuzz", {.output = "", .row = row}), row);
  } catch (const std::invalid_argument& error) {
    LEAT_CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
  return 0;
}
