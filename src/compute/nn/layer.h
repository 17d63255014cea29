// Layers of a network. docs/layers.md lists the kinds and their settings.
//
// A layer knows its output shape and its variables, and adds itself to a graph. Shapes in this header are
// those of one row; in the graph, the batch is the first axis. Images are [height, width, channels],
// sequences [time, channels]. Layers are immutable and thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/config/config.h"
#include "compute/graph/graph.h"
#include "compute/optim/init.h"
#include "compute/tensor/tensor.h"

namespace leat::nn {

// Short names for this folder.
using graph::Graph;
using graph::Value;
using optim::InitKind;
using optim::InitSpec;
using optim::VariableSpec;

// The data passed from layer to layer.
struct Flow {
  graph::Value x;                       // f32[batch, ...]
  std::optional<graph::Value> lengths;  // i32[batch]: valid steps of each sequence; empty: all
};

// Properties of the step that a layer is added to.
struct StepContext {
  // In training, dropout is active and batch norm uses the mean and variance of the batch.
  bool training = true;
  graph::Value weights;      // f32[batch]: 0 for padding rows, which must not affect any result
  graph::Value random_seed;  // i64 scalar, different in each step; the source of all random choices
  // Updates of variables that are not trained, instead of gradients: the variable, and the amount to subtract
  // from it, or the moments to merge into it.
  std::vector<std::pair<graph::Value, graph::Value>> statistics;
};

// Where this host has the files that layers name.
struct LayerFiles {
  using Copies = std::map<std::string, std::string, std::less<>>;
  std::string data = {};  // base directory of relative paths; empty: the current directory
  Copies copies = {};     // files that are elsewhere, by their paths in the settings

  // The file that a path in the settings names.
  std::string Locate(const std::string& path) const;
};

// A variable that training leaves as it is.
struct FrozenVariable {
  optim::VariableSpec spec;
  Tensor values;  // f32, those of the spec
};

struct LayerKind;

// Arguments for creating a layer.
struct LayerRequest {
  std::string name;  // "dense1"
  Config settings;
  Shape inputs;  // shape of a row
  LayerFiles files = {};
  std::span<const LayerKind> kinds =
      {};             // from other folders and programs, for the layers nested in this one
  uint64_t seed = 1;  // the job's seed, for the values of layers that are not trained
};

class Layer {
 public:
  virtual ~Layer() = default;
  const std::string& name() const { return name_; }  // "dense1": kind and number, unless the job sets `name`
  const std::string& where() const { return where_; }    // "job.yaml:14"
  const std::string& device() const { return device_; }  // "cpu:1", or empty: anywhere

  virtual Shape outputs() const = 0;  // shape of a row
  // Names start with the layer's name: "dense1/weight".
  virtual std::vector<optim::VariableSpec> variables() const { return {}; }
  // Variables of layers with `trainable: false`. They are constants of the graph, and in no slice.
  virtual std::vector<FrozenVariable> frozen() const { return {}; }
  // Adds the layer to the graph. Input f32[batch, inputs...], result f32[batch, outputs...]; `variables` are
  // in the order of variables().
  virtual Flow Apply(graph::Graph& graph, const Flow& in, std::span<const graph::Value> variables,
                     StepContext& step) const = 0;
  // Whether it ends with an activation. Losses that include a sigmoid or softmax reject this in the last
  // layer.
  virtual bool has_activation() const { return false; }
  // Whether its outputs are its inputs, arranged otherwise or some of them dropped, so that an activation
  // before it is one behind it.
  virtual bool keeps_values() const { return false; }
  // For each element of a row: if > 0, it must be a whole number in [0, ids()[i]), since it indexes a table.
  // Empty: no element does.
  virtual std::vector<uint32_t> ids() const { return {}; }

 protected:
  explicit Layer(const LayerRequest& request);

 private:
  std::string name_, where_, device_;
};

using LayerFactory = std::shared_ptr<const Layer> (*)(const LayerRequest& request);
struct LayerKind {
  std::string_view kind;
  LayerFactory make;
  bool bare = false;       // settings are optional: - flatten
  bool outermost = false;  // cannot be nested in another layer
};

// The kinds of layers in this folder.
std::span<const LayerKind> LayerKinds();

// A sequence of layers: a network, or the layers nested in another layer.
class Layers {
 public:
  // Reads a `layers:` list. Throws std::invalid_argument with line, layer and sizes. `prefix` is prepended to
  // the layers' names. `more`: kinds from other folders. `seed`: of the job.
  static Layers FromConfig(const Config& list, const Shape& inputs, const LayerFiles& files,
                           std::span<const LayerKind> more = {}, const std::string& prefix = "",
                           uint64_t seed = 1);

  const std::vector<std::shared_ptr<const Layer>>& all() const { return layers_; }
  Shape outputs() const { return layers_.back()->outputs(); }
  std::vector<optim::VariableSpec> variables() const;
  std::vector<FrozenVariable> frozen() const;
  // `variables` are in the order of variables().
  Flow Apply(graph::Graph& graph, Flow in, std::span<const graph::Value> variables, StepContext& step) const;

 private:
  std::vector<std::shared_ptr<const Layer>> layers_;
};

}  // namespace leat::nn
