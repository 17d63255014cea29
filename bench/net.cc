#include "net.h"

#include <string>

#include "base/rng.h"
#include "graph/gradient.h"
#include "kernels/onednn/table.h"
#include "kernels/reference/reference.h"
#include "ops/fuse.h"
#include "ops/ops.h"
#include "optim/init.h"

namespace leat::bench {

graph::Value DenseTrainer::AddVariable(const Shape& shape, int64_t fan_in) {
  Variable v;
  v.elements = Tensor(DType::kF32, shape);
  v.gradient = Tensor(DType::kF32, shape);
  if (fan_in > 0) {
    optim::Initialise({.kind = optim::InitKind::kHeNormal, .fan_in = static_cast<uint32_t>(fan_in)}, 1,
                      std::to_string(variables_.size()), 0, v.elements.as<float>());
  }
  for (size_t s = 0; s < optim::SlotNames(optimizer_.kind).size(); ++s) {
    v.slots.emplace_back(DType::kF32, shape);
    for (float& x : v.slots.back().as<float>()) x = optim::InitialSlot(optimizer_, s);
  }
  v.value = graph_.Make<ops::Variable>({}, v.elements.type());
  variables_.push_back(std::move(v));
  return variables_.back().value;
}

DenseTrainer::DenseTrainer(const std::vector<int64_t>& sizes, int64_t batch,
                           const optim::OptimizerConfig& optimizer)
    : optimizer_(optimizer),
      features_(DType::kF32, {batch, sizes.front()}),
      labels_(DType::kF32, {batch}),
      loss_(DType::kF32, {}) {
  const graph::Value x = graph_.Make<ops::Placeholder>({}, features_.type());
  const graph::Value labels = graph_.Make<ops::Placeholder>({}, labels_.type());
  graph::Value h = x;
  for (size_t i = 1; i < sizes.size(); ++i) {
    const graph::Value w = AddVariable({sizes[i - 1], sizes[i]}, sizes[i - 1]);
    const graph::Value b = AddVariable({sizes[i]}, 0);
    h = graph_.Make<ops::BiasAdd>({graph_.Make<ops::MatMul>({h, w}), b});
    if (i + 1 < sizes.size()) h = graph_.Make<ops::Relu>({h});
  }
  const graph::Value loss =
      graph_.Make<ops::ReduceMean>({graph_.Make<ops::SoftmaxCrossEntropy>({h, labels})});
  std::vector<graph::Value> wrt;
  for (const auto& v : variables_) wrt.push_back(v.value);
  std::vector<graph::Value> fetches = graph::Gradients(graph_, loss, wrt);
  fetches.push_back(loss);

  engine::PlanOptions options;
  options.tables = {&onednn::Table(), &reference::Kernels()};
  options.passes = ops::StandardPasses();
  plan_ = engine::Plan::Compile(graph_, fetches, options);
  plan_->Bind(x, features_.raw());
  plan_->Bind(labels, labels_.raw());
  plan_->Bind(loss, loss_.raw());
  for (size_t i = 0; i < variables_.size(); ++i) {
    plan_->Bind(variables_[i].value, variables_[i].elements.raw());
    plan_->Bind(fetches[i], variables_[i].gradient.raw());
  }

  Rng rng(2);
  for (float& f : features_.as<float>()) f = static_cast<float>(rng.Normal());
  for (float& l : labels_.as<float>()) l = static_cast<float>(rng.Below(static_cast<uint64_t>(sizes.back())));
}

void DenseTrainer::Step() {
  plan_->Run();
  ++step_;
  for (auto& v : variables_) {
    std::vector<std::span<float>> slots;
    for (auto& s : v.slots) slots.push_back(s.as<float>());
    optim::Apply(optimizer_, v.elements.as<float>(), v.gradient.as<float>(), slots, step_, 1.0f);
  }
}

float DenseTrainer::loss() const {
  return loss_.as<float>()[0];
}

}  // namespace leat::bench
