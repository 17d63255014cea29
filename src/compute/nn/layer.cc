#include "compute/nn/layer.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/text.h"
#include "compute/nn/layers/kinds.h"

namespace leat::nn {
namespace {

struct Item {
  LayerKind kind;
  Config settings;  // an empty map for a kind without settings
};

// `- flatten` is short for `- flatten: {}`.
Item ReadItem(const Config& item, std::span<const LayerKind> more, bool nested) {
  std::vector<LayerKind> kinds(LayerKinds().begin(), LayerKinds().end());
  kinds.insert(kinds.end(), more.begin(), more.end());
  if (nested) std::erase_if(kinds, [](const LayerKind& kind) { return kind.outermost; });
  std::vector<std::string> names;
  for (const auto& kind : kinds) names.emplace_back(kind.kind);
  const bool alone = item.IsScalar();
  if (!alone && (!item.IsMap() || item.Keys().size() != 1)) {
    item.Fail("a layer must be a map of one kind to its settings, such as - dense: {units: 10}");
  }
  const std::string name = alone ? item.OneOf("layer", names) : item.Keys()[0];
  const auto at = std::ranges::find(kinds, name, &LayerKind::kind);
  if (at == kinds.end()) item.At(name).FailUnknown("layer", name, names);
  if (alone && !at->bare) item.Fail("layer " + name + " needs settings; write - " + name + ": {units: 10}");
  const bool empty = !alone && item.At(name).IsNull();
  return {*at, alone ? item.WithoutSettings() : empty ? item.At(name).WithoutSettings() : item.At(name)};
}

// Names appear in files and messages.
void CheckName(const Config& given) {
  const auto name = given.String();
  if (!IsWord(name, 64, "_-.")) {
    given.Fail("layer name '" + name + "': must be 1 to 64 letters, digits, '_', '-' or '.'");
  }
}

// Placement checks later whether the device exists.
std::string ReadDevice(const Config& given) {
  auto device = given.String();
  if (!IsWord(device, 64, "_-.:")) given.Fail("device: must be a name such as cpu:0");
  return device;
}

// A layer with `trainable: false`.
class FrozenLayer final : public Layer {
 public:
  FrozenLayer(const LayerRequest& request, std::shared_ptr<const Layer> layer)
      : Layer(request), layer_(std::move(layer)), own_(layer_->frozen()) {
    for (auto& spec : layer_->variables()) {
      const Tensor values(DType::kF32, spec.shape);
      optim::Initialise(spec.init, request.seed, spec.name, 0, values.as<float>());
      spec.init.given = nullptr;
      frozen_.push_back({std::move(spec), values});
    }
  }

  Shape outputs() const override { return layer_->outputs(); }
  std::vector<FrozenVariable> frozen() const override {
    auto all = own_;
    all.insert(all.end(), frozen_.begin(), frozen_.end());
    return all;
  }
  bool has_activation() const override { return layer_->has_activation(); }
  bool keeps_values() const override { return layer_->keeps_values(); }
  std::vector<uint32_t> ids() const override { return layer_->ids(); }

  Flow Apply(graph::Graph& graph, const Flow& in, std::span<const graph::Value>,
             StepContext& step) const override {
    std::vector<graph::Value> constants;
    for (const FrozenVariable& variable : frozen_) {
      const std::string& name = variable.spec.name;
      constants.push_back(
          graph.MakeNamed<graph::Constant>(name.substr(name.rfind('/') + 1), {}, variable.values));
    }
    return layer_->Apply(graph, in, constants, step);
  }

 private:
  std::shared_ptr<const Layer> layer_;
  std::vector<FrozenVariable> own_;     // variables of layers nested in it
  std::vector<FrozenVariable> frozen_;  // in the order of the layer's variables
};

}  // namespace

std::string LayerFiles::Locate(const std::string& path) const {
  if (const auto copy = copies.find(path); copy != copies.end()) return copy->second;
  if (data.empty() || std::filesystem::path(path).is_absolute()) return path;
  return (std::filesystem::path(data) / path).string();
}

Layer::Layer(const LayerRequest& request) : name_(request.name), where_(request.settings.where()) {
  if (request.settings.Has("device")) device_ = ReadDevice(request.settings.At("device"));
}

std::span<const LayerKind> LayerKinds() {
  static const std::vector<LayerKind> kinds = [] {
    std::vector<LayerKind> all;
    for (const auto family : {DenseKinds(), ImageKinds(), BlockKinds(), SequenceKinds()})
      all.insert(all.end(), family.begin(), family.end());
    return all;
  }();
  return kinds;
}

Layers Layers::FromConfig(const Config& list, const Shape& inputs, const LayerFiles& files,
                          std::span<const LayerKind> more, const std::string& prefix, uint64_t seed) {
  if (list.size() == 0) list.Fail("layers is empty; there must be at least one");
  Layers layers;
  Shape row = inputs;
  std::map<std::string, uint32_t, std::less<>> number;
  std::set<std::string> names;
  for (size_t i = 0; i < list.size(); ++i) {
    const Item item = ReadItem(list[i], more, !prefix.empty());
    const std::string kind(item.kind.kind);
    std::string name = kind + std::to_string(++number[kind]);
    if (item.settings.Has("name")) {
      CheckName(item.settings.At("name"));
      name = item.settings.String("name", "");
    }
    if (!names.insert(name).second) list[i].Fail("two layers are named '" + name + "'");
    const LayerRequest request{prefix + name, item.settings, row, files, more, seed};
    std::shared_ptr<const Layer> layer = item.kind.make(request);
    if (!item.settings.Bool("trainable", true))
      layer = std::make_shared<FrozenLayer>(request, std::move(layer));
    layers.layers_.push_back(std::move(layer));
    row = layers.layers_.back()->outputs();
  }
  return layers;
}

std::vector<optim::VariableSpec> Layers::variables() const {
  std::vector<optim::VariableSpec> all;
  for (const auto& layer : layers_) {
    for (auto& variable : layer->variables()) all.push_back(std::move(variable));
  }
  return all;
}

std::vector<FrozenVariable> Layers::frozen() const {
  std::vector<FrozenVariable> all;
  for (const auto& layer : layers_) {
    for (auto& variable : layer->frozen()) all.push_back(std::move(variable));
  }
  return all;
}

Flow Layers::Apply(graph::Graph& graph, Flow in, std::span<const graph::Value> variables,
                   StepContext& step) const {
  for (const auto& layer : layers_) {
    const size_t count = layer->variables().size();
    // Inside another layer, the name has a prefix that is already known.
    const auto own = layer->name().substr(layer->name().rfind('/') + 1);
    const graph::Graph::Scope scope(graph, own, layer->where(), layer->device());
    in = layer->Apply(graph, in, variables.first(count), step);
    variables = variables.subspan(count);
  }
  return in;
}

}  // namespace leat::nn
