// Layers of a network, each a small class that a job's line turns into (row G4):
//
//   - dense: {units: 512, activation: relu, use_bias: true, init: he_normal, name: hidden}
//       y = activation(x W + b). activation: none (default), relu, sigmoid, tanh. init is that of W:
//       he_normal before relu and glorot_uniform otherwise, zeros, or {constant: 0.5}; b starts at 0.
//   - bias: {units: 8, init: zeros}
//       y = b for every row, whatever x is: a model that only counts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/config.h"
#include "graph/graph.h"
#include "optim/init.h"

namespace leat::nn {

class Layer {
 public:
  virtual ~Layer() = default;
  const std::string& name() const { return name_; }  // "dense1": its kind and number unless the job names it
  const std::string& where() const { return where_; }  // "job.yaml:14"

  virtual uint32_t outputs() const = 0;  // numbers per row that it turns its inputs into
  // Names begin with the layer's: "dense1/weight".
  virtual std::vector<optim::VariableSpec> variables() const = 0;
  // Adds the layer to the graph: x f32[batch, inputs], variables as listed, result f32[batch, outputs].
  virtual graph::Value Apply(graph::Graph& graph, graph::Value x,
                             std::span<const graph::Value> variables) const = 0;
  // What follows the linear part: a loss that brings its own sigmoid or softmax wants none.
  virtual bool has_activation() const { return false; }

 protected:
  Layer(std::string name, std::string where) : name_(std::move(name)), where_(std::move(where)) {}

 private:
  std::string name_, where_;
};

// One item of a model's `layers:`, a map from the kind to its settings. `number` counts the layers of that
// kind up to this one. Throws std::invalid_argument; an unknown kind names the nearest.
std::shared_ptr<const Layer> MakeLayer(const Config& item, uint32_t inputs, uint32_t number);
// The kind that such an item names.
std::string LayerKind(const Config& item);

}  // namespace leat::nn
