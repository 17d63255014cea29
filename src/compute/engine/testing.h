// Helpers for the engine's tests: small graphs, options, kernels that report when they run.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "compute/engine/plan.h"
#include "compute/engine/run/thread_pool.h"
#include "compute/graph/graph.h"
#include "compute/kernels/reference/reference.h"
#include "compute/ops/ops.h"
#include "compute/ops/passes.h"

namespace leat::engine {

size_t AllocationCount();  // counting_new_test.cc

using graph::Graph;
using graph::Kernel;
using graph::KernelArgs;
using graph::KernelRequest;
using graph::KernelTable;
using graph::NodeIndex;
using graph::Value;

inline PlanOptions Options() {
  return {.tables = {&reference::Kernels()}, .passes = {}};
}
inline PlanOptions Queued(int threads = 3) {
  PlanOptions options = Options();
  options.inter_op_threads = threads;
  options.inline_below_us = 0;
  return options;
}

inline Tensor Floats(Shape shape, std::vector<float> values) {
  return Tensor::Of<float>(shape, values);
}
inline std::vector<float> Elements(const Tensor& t) {
  return {t.as<float>().begin(), t.as<float>().end()};
}

inline Value Feed(Graph& graph, std::string_view name, Shape shape) {
  return graph.MakeNamed<graph::Placeholder>(name, {}, TensorType{DType::kF32, shape});
}

// A random graph of cheap ops over tensors of a few sizes, with views, twins, constants and control
// dependencies.
class RandomGraph {
 public:
  // `devices`: required devices for some of the nodes.
  explicit RandomGraph(uint64_t seed, std::vector<std::string> devices = {})
      : rng_(seed), devices_(std::move(devices)) {
    for (int i = 0; i < 3; ++i) Push(Feed(graph, "x" + std::to_string(i), {4, 16}));
    feeds = values_;
    Push(graph.Make<graph::Constant>({}, Shape{4, 16}, 0.5f));
    const size_t nodes = 5 + rng_.Below(60);
    for (size_t i = 0; i < nodes; ++i) Push(Grow());
    for (Value v : values_) {
      if (rng_.Chance(0.15)) fetches.push_back(v);
    }
    fetches.push_back(values_.back());
  }

  // Random tensors, one for each feed.
  std::vector<Tensor> Inputs(uint64_t seed) const {
    Rng rng(seed);
    std::vector<Tensor> in;
    for (Value v : feeds) {
      in.emplace_back(graph.type(v));
      for (float& x : in.back().as<float>()) x = static_cast<float>(rng.Normal());
    }
    return in;
  }

  Graph graph;
  std::vector<Value> feeds, fetches;

 private:
  // Recent values more often than old ones.
  Value Pick() {
    const size_t n = values_.size();
    return values_[rng_.Chance(0.6) ? n - 1 - rng_.Below(std::min<size_t>(n, 4)) : rng_.Below(n)];
  }
  template <class O, class... Args>
  Value Make(std::vector<Value> inputs, Args... args) {
    std::vector<NodeIndex> control;
    if (rng_.Chance(0.1)) control.push_back(Pick().node);
    std::string device;
    if (!devices_.empty() && rng_.Chance(0.4)) device = devices_[rng_.Below(devices_.size())];
    const Graph::Scope scope(graph, "", "", device);
    return graph.Add(std::make_shared<O>(args...), std::move(inputs), "", control);
  }
  Value Grow() {
    const Value a = Pick(), b = Pick();
    switch (rng_.Below(10)) {
      case 0:
        return Make<ops::Neg>({a});
      case 1:
        return Make<ops::Tanh>({a});
      case 2:
        return Make<ops::Add>({a, b});
      case 3:
        return Make<ops::Mul>({a, b});
      case 4:
        return Make<ops::Sub>({a, b});
      case 5:
        return Make<graph::AddN>({a, b, Pick()});
      case 6:
        return Make<ops::Scale>({a}, 0.5f);
      case 7:
        return Make<ops::Reshape>({Make<ops::Tanh>({Make<ops::Reshape>({a}, Shape{64})})}, Shape{4, 16});
      case 8:
        return Make<ops::Add>({a, Make<ops::ReduceMean>({b}, std::vector<int>{-1}, true)});
      default:
        return Make<ops::Tanh>(
            {Make<ops::MatMul>({Make<ops::MatMul>({a, b}, true, false), Pick()}, false, true)});
    }
  }
  // Gives all values the same shape and keeps them finite.
  void Push(Value v) {
    if (graph.shape(v) == Shape{16, 4}) v = graph.Make<ops::Transpose>({v});
    values_.push_back(graph.Make<ops::Tanh>({v}));
    if (graph::IsFeed(*graph.node(v).op)) values_.back() = v;
  }

  Rng rng_;
  std::vector<std::string> devices_;
  std::vector<Value> values_;
};

// Kernels that report when they run.
class Probe {
 public:
  KernelTable Table(std::function<void(const std::string&)> f) {
    return {"probe", {{"scale", [f](const KernelRequest& request) -> std::unique_ptr<Kernel> {
                         return std::make_unique<ProbeKernel>(request.op.attributes(), f);
                       }}}};
  }

 private:
  class ProbeKernel final : public Kernel {
   public:
    ProbeKernel(std::string name, std::function<void(const std::string&)> f)
        : name_(std::move(name)), f_(std::move(f)) {}
    void Run(const KernelArgs&) override { f_(name_); }

   private:
    std::string name_;
    std::function<void(const std::string&)> f_;
  };
};

// A training step of a multilayer perceptron.
class Perceptron {
 public:
  Perceptron(int64_t batch, std::vector<int64_t> sizes) {
    Value h = x = Feed(graph, "x", {batch, sizes[0]});
    for (size_t i = 0; i + 1 < sizes.size(); ++i) {
      const Value w = Variable({sizes[i], sizes[i + 1]}), b = Variable({sizes[i + 1]});
      h = graph.Make<ops::BiasAdd>({graph.Make<ops::MatMul>({h, w}), b});
      if (i + 2 < sizes.size()) h = graph.Make<ops::Relu>({h});
    }
    const Value labels = Feed(graph, "labels", {batch});
    fetches = {graph.Make<ops::ReduceMean>({graph.Make<ops::SoftmaxCrossEntropy>({h, labels})})};
    for (Value g : graph::Gradients(graph, fetches[0], variables)) fetches.push_back(g);
    feeds = variables;
    feeds.insert(feeds.end(), {x, labels});
  }
  Value Variable(Shape shape) {
    variables.push_back(graph.Make<graph::Variable>({}, TensorType{DType::kF32, shape}));
    return variables.back();
  }
  std::unique_ptr<Plan> Compile(PlanOptions options) {
    options.passes = ops::StandardPasses();
    auto plan = Plan::Compile(graph, fetches, options);
    Rng rng(1);
    for (Value v : feeds) {
      data.emplace_back(graph.type(v));
      for (float& e : data.back().as<float>()) e = static_cast<float>(rng.Uniform());
      plan->Bind(v, data.back().raw());
    }
    return plan;
  }

  Graph graph;
  Value x;
  std::vector<Value> variables, feeds, fetches;
  std::vector<Tensor> data;
};

// A machine with `count` devices "cpu:0", "cpu:1" …, each with that many unpinned threads.
inline std::shared_ptr<const Machine> Devices(size_t count, int threads = 1) {
  Machine machine;
  for (size_t i = 0; i < count; ++i) {
    machine.devices.push_back(
        {.name = "cpu:" + std::to_string(i), .kind = "cpu", .cores = {}, .threads = threads});
    machine.devices.back().pool = std::make_shared<ThreadPool>();
  }
  return std::make_shared<const Machine>(std::move(machine));
}

// A machine whose threads wake at once, so that placement uses all devices.
inline std::shared_ptr<const Rates> EagerRates() {
  return std::make_shared<const Rates>(Rates{.flops_per_us = 1,
                                             .cached_bytes_per_us = 1e9,
                                             .memory_bytes_per_us = 1e9,
                                             .call_us = 1,
                                             .wake_us = 0.01,
                                             .cache_bytes = 1 << 20});
}

}  // namespace leat::engine
