#include "training.h"

#include <algorithm>
#include <fstream>
#include <stdexcept>
#include <string>

#include "base/rng.h"
#include "compute/graph/pass.h"
#include "compute/kernels/cpu/table.h"
#include "compute/kernels/reference/reference.h"
#include "compute/ops/passes.h"
#include "compute/optim/init.h"

namespace leat::bench {
namespace {

double FlopsOf(const graph::Graph& whole, std::span<const graph::Value> fetches) {
  const graph::Rewrite needed = graph::Prune(whole, fetches);
  double sum = 0;
  for (const graph::Node& node : needed.graph.nodes()) {
    std::vector<TensorType> inputs;
    for (graph::Value v : node.inputs) inputs.push_back(needed.graph.type(v));
    if (!inputs.empty() && !node.op->is_view()) sum += node.op->flops(inputs, node.outputs);
  }
  return sum;
}

}  // namespace

Training::Training(const TrainingCase& c, const optim::OptimizerConfig& optimizer, bool bf16)
    : optimizer_(optimizer),
      model_(nn::Model::FromConfig(Config::Parse(c.model, c.name), {.labels = c.labels})) {
  const nn::StepGraph step = model_.Build(static_cast<uint32_t>(c.batch));
  std::vector<graph::Value> fetches = step.gradients;
  fetches.push_back(step.loss);
  flops_ = FlopsOf(step.graph, fetches);

  engine::PlanOptions options;
  options.tables = {&cpu::Table(), &reference::Kernels()};
  options.passes = ops::StandardPasses();
  if (bf16) options.passes.push_back(ops::UseBf16());
  plan_ = engine::Plan::Compile(step.graph, fetches, options);
  const auto bind = [&](graph::Value value, Tensor& tensor) {
    tensor = Tensor(step.graph.type(value));
    plan_->Bind(value, tensor.raw());
  };
  bind(step.features, features_);
  bind(step.labels, labels_);
  bind(step.weights, weights_);
  bind(step.random_seed, noise_);
  bind(step.loss, loss_);
  for (size_t v = 0; v < step.variables.size(); ++v) {
    Variable& variable = variables_.emplace_back();
    const optim::VariableSpec& spec = model_.variables()[v];
    bind(step.variables[v], variable.elements);
    bind(step.gradients[v], variable.gradient);
    optim::Initialise(spec.init, 1, spec.name, 0, variable.elements.as<float>());
    for (size_t s = 0; s < optim::SlotNames(optimizer_).size(); ++s) {
      variable.slots.emplace_back(DType::kF32, spec.shape);
      std::ranges::fill(variable.slots.back().as<float>(), optim::InitialSlot(optimizer_, s));
      variable.slot_spans.push_back(variable.slots.back().as<float>());
    }
  }

  Rng rng(2);
  const std::vector<uint32_t> ids = model_.feature_ids();  // number of ids of each feature
  const auto features = features_.as<float>();
  for (size_t i = 0; i < features.size(); ++i) {
    features[i] =
        static_cast<float>(c.features == Features::kIds ? rng.Below(ids[i % ids.size()]) : rng.Normal());
  }
  for (float& l : labels_.as<float>()) l = static_cast<float>(rng.Below(model_.classes()));
  std::ranges::fill(weights_.as<float>(), 1.0f);
}

void Training::Save(const std::string& directory) const {
  const auto write = [&](std::string name, const Tensor& tensor) {
    std::ranges::replace(name, '/', '.');
    std::ofstream out(directory + "/" + name, std::ios::binary);
    const auto values = tensor.as<float>();
    out.write(reinterpret_cast<const char*>(values.data()),
              static_cast<std::streamsize>(values.size_bytes()));
    if (!out.flush()) throw std::runtime_error("cannot write " + directory + "/" + name);
  };
  write("features", features_);
  write("labels", labels_);
  for (size_t v = 0; v < variables_.size(); ++v) write(model_.variables()[v].name, variables_[v].elements);
}

void Training::Step() {
  plan_->Run();
  ++step_;
  for (Variable& v : variables_) {
    optim::Apply(optimizer_, v.elements.as<float>(), v.gradient.as<float>(), v.slot_spans, step_, 1.0f);
  }
}

float Training::loss() const {
  return loss_.as<float>()[0];
}

TrainingCase DenseCase(std::string name, const std::vector<int64_t>& sizes, int64_t batch) {
  std::string model = "inputs: " + std::to_string(sizes.front()) + "\nlayers:\n";
  for (size_t i = 1; i < sizes.size(); ++i) {
    const bool last = i + 1 == sizes.size();
    model += "  - dense: {units: " + std::to_string(sizes[i]) + (last ? "}\n" : ", activation: relu}\n");
  }
  return {.name = std::move(name), .model = model + "loss: softmax_cross_entropy\n", .batch = batch};
}

}  // namespace leat::bench
