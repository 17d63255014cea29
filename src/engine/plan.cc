#include "engine/plan.h"

#include <stdexcept>

#include "engine/compiler.h"

namespace leat::engine {
namespace {

template <class Bindings>
auto& Find(Bindings& bindings, graph::Value value) {
  const auto it = bindings.find(value);
  if (it == bindings.end()) {
    throw std::invalid_argument("output " + std::to_string(value.output) + " of node " +
                                std::to_string(value.node) + " is neither a feed nor a fetch of this plan");
  }
  return it->second;
}

class CompiledPlan final : public Plan {
 public:
  explicit CompiledPlan(Program program) : p_(std::move(program)) {
    for (const Storage& storage : p_.storages) {
      if (storage.kind == Storage::Kind::kFeed) ++unbound_feeds_;
    }
    if (p_.threads > 1) {
      executor_ = std::make_unique<QueueExecutor>(p_.steps, p_.dependencies, p_.costs_us, p_.threads);
    }
  }

  void Bind(graph::Value value, void* data) override {
    Binding& binding = Find(p_.bindings, value);
    auto* bytes = static_cast<std::byte*>(data);
    if (!binding.storage) {
      binding.unused = bytes;
      return;
    }
    Storage& storage = p_.storages[*binding.storage];
    if (storage.kind == Storage::Kind::kFeed && !storage.bound) {
      storage.bound = true;
      --unbound_feeds_;
    }
    storage.data = bytes;
    for (uint32_t slot : storage.input_slots) p_.inputs[slot] = bytes;
    for (uint32_t slot : storage.output_slots) p_.outputs[slot] = bytes;
  }

  Tensor At(graph::Value value) const override {
    const Binding& binding = Find(p_.bindings, value);
    return Tensor(binding.type, binding.storage ? p_.storages[*binding.storage].data : binding.unused);
  }

  std::span<const graph::Value> feeds() const override { return p_.feeds; }

  void Run() override {
    if (unbound_feeds_ > 0) FailUnbound();
    if (executor_) {
      executor_->Run();
    } else {
      for (const Step& step : p_.steps) step.kernel->Run(step.args);
    }
  }

  size_t arena_bytes() const override { return p_.arena.size(); }
  size_t largest_live_bytes() const override { return p_.largest_live_bytes; }
  size_t steps() const override { return p_.steps.size(); }
  std::string ToString() const override {
    std::string text;
    for (const std::string& line : p_.lines) text += line + "\n";
    return text;
  }

 private:
  [[noreturn]] void FailUnbound() const {
    std::string names;
    for (const Storage& storage : p_.storages) {
      if (storage.kind != Storage::Kind::kFeed || storage.bound) continue;
      names += (names.empty() ? "\"" : ", \"") + storage.name + "\"";
    }
    throw std::invalid_argument("run before these feeds were bound: " + names);
  }

  Program p_;
  size_t unbound_feeds_ = 0;
  std::unique_ptr<QueueExecutor> executor_;  // null when the plan runs inline
};

}  // namespace

std::unique_ptr<Plan> Plan::Compile(const graph::Graph& graph, std::span<const graph::Value> fetches,
                                    const PlanOptions& options) {
  return std::make_unique<CompiledPlan>(CompileProgram(graph, fetches, options));
}

}  // namespace leat::engine
