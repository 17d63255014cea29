// Layers of a network, each a small class that a job's line turns into. docs/jobs.md lists the
// kinds and their settings.
//
// A layer says what it makes of one row, which variables it has, and adds itself to a graph. Shapes here are
// those of a row, without the batch; in the graph the batch comes first. Images are height, width, channels;
// sequences time, channels.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/config.h"
#include "graph/graph.h"
#include "optim/init.h"

namespace leat::nn {

// What goes from layer to layer.
struct Flow {
  graph::Value x;                       // f32[batch, ...]
  std::optional<graph::Value> lengths;  // i32[batch]: how many steps of a sequence count; empty: all
};

// What a layer may need to know of the step that it becomes a part of.
struct StepContext {
  // A step of training: dropout drops, batch norm takes the batch's own mean and variance.
  bool training = true;
  graph::Value weights;      // f32[batch]: 0 for rows that are padding and must not matter
  graph::Value random_seed;  // i64 scalar, another one each step: what random choices are a function of
  // For variables of role kStatistic, in place of a gradient: value and what is to be subtracted from it.
  std::vector<std::pair<graph::Value, graph::Value>> statistics;
};

// What a layer is made from.
struct LayerRequest {
  std::string name;  // "dense1"
  Config settings;
  Shape inputs;      // of a row
  std::string data;  // directory that paths in the settings are looked up in; empty: the current one
};

class Layer {
 public:
  virtual ~Layer() = default;
  const std::string& name() const { return name_; }  // "dense1": its kind and number unless the job names it
  const std::string& where() const { return where_; }    // "job.yaml:14"
  const std::string& device() const { return device_; }  // "cpu:1", or empty: anywhere

  virtual Shape outputs() const = 0;  // of a row
  // Names begin with the layer's: "dense1/weight".
  virtual std::vector<optim::VariableSpec> variables() const { return {}; }
  // Adds the layer to the graph: x f32[batch, inputs...], variables as listed, result f32[batch, outputs...].
  virtual Flow Apply(graph::Graph& graph, const Flow& in, std::span<const graph::Value> variables,
                     StepContext& step) const = 0;
  // What follows the linear part: a loss that brings its own sigmoid or softmax wants none.
  virtual bool has_activation() const { return false; }
  // > 0: what comes in has to be whole numbers from 0 to below this.
  virtual uint32_t ids() const { return 0; }

 protected:
  explicit Layer(const LayerRequest& request);

 private:
  std::string name_, where_, device_;
};

using LayerFactory = std::shared_ptr<const Layer> (*)(const LayerRequest& request);
struct LayerKind {
  std::string_view kind;
  LayerFactory make;
  bool bare = false;  // may stand without settings: - flatten
};

// All kinds of this folder.
std::span<const LayerKind> LayerKinds();

// A list of layers, one behind the other: a whole network, or what stands inside another layer.
class Layers {
 public:
  // Reads a `layers:` list. Throws std::invalid_argument with line, layer and sizes; an unknown kind names
  // the nearest. `prefix` comes before the layers' own names. `more`: kinds from other folders.
  static Layers FromConfig(const Config& list, const Shape& inputs, const std::string& data,
                           std::span<const LayerKind> more = {}, const std::string& prefix = "");

  const std::vector<std::shared_ptr<const Layer>>& all() const { return layers_; }
  Shape outputs() const { return layers_.back()->outputs(); }
  std::vector<optim::VariableSpec> variables() const;
  // `variables` as listed.
  Flow Apply(graph::Graph& graph, Flow in, std::span<const graph::Value> variables, StepContext& step) const;

 private:
  std::vector<std::shared_ptr<const Layer>> layers_;
};

}  // namespace leat::nn
