#include "nn/layer.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "ops/ops.h"

namespace leat::nn {
namespace {

using graph::Graph;
using graph::Value;
using optim::InitKind;
using optim::InitSpec;
using optim::VariableSpec;

// Rows of numbers wider than this do not fit any machine that trains them.
constexpr int64_t kMaxUnits = 1 << 20;

int64_t Units(const Config& settings) {
  settings.At("units");  // fails when it is missing
  return settings.Integer("units", 0, 1, kMaxUnits);
}

InitSpec ReadInit(const Config& settings, InitKind fallback, uint32_t fan_in, uint32_t fan_out) {
  InitSpec init{.kind = fallback, .fan_in = fan_in, .fan_out = fan_out};
  if (!settings.Has("init")) return init;
  const Config given = settings.At("init");
  if (given.IsMap()) {
    given.Allow({"constant"});
    init.kind = InitKind::kConstant;
    init.value = static_cast<float>(given.At("constant").Number());
    return init;
  }
  const auto name = given.OneOf("init", {"glorot_uniform", "he_normal", "zeros", "constant"});
  if (name == "constant") given.Fail("init constant needs its value: init: {constant: 0.5}");
  init.kind = name == "glorot_uniform" ? InitKind::kGlorotUniform
              : name == "he_normal"    ? InitKind::kHeNormal
                                       : InitKind::kZeros;
  return init;
}

ops::Activation ReadActivation(const Config& settings) {
  if (!settings.Has("activation")) return ops::Activation::kNone;
  constexpr std::array kAll = {ops::Activation::kNone, ops::Activation::kRelu, ops::Activation::kSigmoid,
                               ops::Activation::kTanh};
  std::vector<std::string> names;
  for (auto a : kAll) names.emplace_back(ops::Name(a));
  const auto name = settings.At("activation").OneOf("activation", names);
  return kAll[static_cast<size_t>(std::ranges::find(names, name) - names.begin())];
}

class DenseLayer final : public Layer {
 public:
  DenseLayer(std::string name, const Config& settings, uint32_t inputs)
      : Layer(std::move(name), settings.where()), inputs_(inputs) {
    settings.Allow({"units", "activation", "use_bias", "init", "name"});
    units_ = static_cast<uint32_t>(Units(settings));
    activation_ = ReadActivation(settings);
    use_bias_ = settings.Bool("use_bias", true);
    const auto init = activation_ == ops::Activation::kRelu ? InitKind::kHeNormal : InitKind::kGlorotUniform;
    init_ = ReadInit(settings, init, inputs, units_);
  }

  uint32_t outputs() const override { return units_; }
  bool has_activation() const override { return activation_ != ops::Activation::kNone; }

  std::vector<VariableSpec> variables() const override {
    std::vector<VariableSpec> all = {{name() + "/weight", Shape{inputs_, units_}, init_}};
    if (use_bias_) all.push_back({name() + "/bias", Shape{units_}, InitSpec{}});
    return all;
  }

  Value Apply(Graph& graph, Value x, std::span<const Value> variables) const override {
    Value y = graph.Make<ops::MatMul>({x, variables[0]});
    if (use_bias_) y = graph.Make<ops::BiasAdd>({y, variables[1]});
    switch (activation_) {
      case ops::Activation::kNone:
        return y;
      case ops::Activation::kRelu:
        return graph.Make<ops::Relu>({y});
      case ops::Activation::kSigmoid:
        return graph.Make<ops::Sigmoid>({y});
      case ops::Activation::kTanh:
        return graph.Make<ops::Tanh>({y});
    }
    return y;
  }

 private:
  uint32_t inputs_, units_ = 0;
  ops::Activation activation_ = ops::Activation::kNone;
  bool use_bias_ = true;
  InitSpec init_;
};

class BiasLayer final : public Layer {
 public:
  BiasLayer(std::string name, const Config& settings, uint32_t /*inputs*/)
      : Layer(std::move(name), settings.where()) {
    settings.Allow({"units", "init", "name"});
    units_ = static_cast<uint32_t>(Units(settings));
    init_ = ReadInit(settings, InitKind::kZeros, units_, units_);
  }

  uint32_t outputs() const override { return units_; }
  std::vector<VariableSpec> variables() const override { return {{name() + "/bias", Shape{units_}, init_}}; }
  Value Apply(Graph& graph, Value x, std::span<const Value> variables) const override {
    return graph.Make<ops::BroadcastTo>({variables[0]}, Shape{graph.shape(x)[0], units_});
  }

 private:
  uint32_t units_ = 0;
  InitSpec init_;
};

template <class T>
std::shared_ptr<const Layer> Make(std::string name, const Config& settings, uint32_t inputs) {
  return std::make_shared<T>(std::move(name), settings, inputs);
}

struct Row {
  std::string_view kind;
  std::shared_ptr<const Layer> (*make)(std::string name, const Config& settings, uint32_t inputs);
};
// All kinds there are.
constexpr Row kRows[] = {
    {"dense", Make<DenseLayer>},
    {"bias", Make<BiasLayer>},
};

const Row& RowOf(const Config& item) {
  std::vector<std::string> kinds;
  for (const auto& row : kRows) kinds.emplace_back(row.kind);
  if (item.IsScalar()) {
    const auto kind = item.OneOf("layer", kinds);
    item.Fail("layer " + kind + " has no settings; write - " + kind + ": {units: 10}");
  }
  if (!item.IsMap() || item.Keys().size() != 1) {
    item.Fail("a layer is one kind with its settings: - dense: {units: 10}");
  }
  const auto kind = item.Keys()[0];
  const auto at = std::ranges::find(kRows, kind, &Row::kind);
  if (at == std::end(kRows)) item.At(kind).FailUnknown("layer", kind, kinds);
  return *at;
}

// Names go into files and messages: letters, digits, _ - and .
void CheckName(const Config& given) {
  const auto name = given.String();
  const bool fits = !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
  if (!fits) given.Fail("layer name '" + name + "': must be 1 to 64 letters, digits, '_', '-' or '.'");
}

}  // namespace

std::string LayerKind(const Config& item) {
  return std::string(RowOf(item).kind);
}

std::shared_ptr<const Layer> MakeLayer(const Config& item, uint32_t inputs, uint32_t number) {
  const Row& row = RowOf(item);
  const Config settings = item.At(row.kind);
  if (settings.Has("name")) CheckName(settings.At("name"));
  return row.make(settings.String("name", std::string(row.kind) + std::to_string(number)), settings, inputs);
}

}  // namespace leat::nn
