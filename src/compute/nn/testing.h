// For tests of models: a model with its parameters and one batch, run by the reference kernels.
#pragma once

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "compute/engine/plan.h"
#include "compute/kernels/reference/reference.h"
#include "compute/nn/model.h"
#include "compute/ops/passes.h"

namespace leat::nn {

// Parameters are initialised from `seed`. Features and labels start as 0, weights as 1.
class ModelStep {
 public:
  ModelStep(const Model& model, uint32_t batch, bool training = true, uint64_t seed = 1)
      : variables_(model.variables()), step_(model.Build(batch, training)) {
    std::vector<graph::Value> fetches = {step_.loss, step_.scores};
    fetches.insert(fetches.end(), step_.gradients.begin(), step_.gradients.end());
    plan_ = engine::Plan::Compile(step_.graph, fetches,
                                  {.tables = {&reference::Kernels()}, .passes = ops::StandardPasses()});
    const auto bind = [&](graph::Value v, std::vector<float>& memory) {
      memory.assign(static_cast<size_t>(step_.graph.shape(v).elements()), 0.0f);
      plan_->Bind(v, memory.data());
    };
    bind(step_.features, features);
    bind(step_.labels, labels);
    bind(step_.weights, weights);
    plan_->Bind(step_.random_seed, &random_seed);
    parameters.resize(variables_.size());
    for (size_t v = 0; v < parameters.size(); ++v) {
      bind(step_.variables[v], parameters[v]);
      optim::Initialise(variables_[v].init, seed, variables_[v].name, 0, parameters[v]);
    }
    std::ranges::fill(weights, 1.0f);
  }

  void Run() { plan_->Run(); }
  float loss() const { return plan_->At(step_.loss).as<float>()[0]; }
  std::vector<float> scores() const { return Copy(step_.scores); }
  std::vector<float> gradient(size_t v) const { return Copy(step_.gradients[v]); }
  // The gradient of the variable with this name.
  std::vector<float> gradient(std::string_view name) const { return gradient(IndexOf(name)); }
  // Loss and all gradients, one after the other.
  std::vector<float> results() const {
    std::vector<float> all = {loss()};
    for (auto g : step_.gradients) {
      const auto part = Copy(g);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }
  std::vector<float>& parameter(std::string_view name) { return parameters[IndexOf(name)]; }

  std::vector<float> features, labels, weights;
  int64_t random_seed = 1;
  std::vector<std::vector<float>> parameters;

 private:
  std::vector<float> Copy(graph::Value v) const {
    const auto span = plan_->At(v).as<float>();
    return {span.begin(), span.end()};
  }
  size_t IndexOf(std::string_view name) const {
    const auto at = std::ranges::find(variables_, name, &VariableSpec::name);
    LEAT_CHECK(at != variables_.end());
    return static_cast<size_t>(at - variables_.begin());
  }

  std::vector<VariableSpec> variables_;
  StepGraph step_;
  std::unique_ptr<engine::Plan> plan_;
};

}  // namespace leat::nn
