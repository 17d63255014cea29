// What the settings of several kinds of layers share.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "nn/layer.h"
#include "ops/matrix/dense.h"

namespace leat::nn {

// Fails on a setting that is neither among `known` nor one that every layer has.
void AllowSettings(const Config& settings, std::initializer_list<std::string_view> known);

// `units:`, which has to be there.
uint32_t ReadUnits(const Config& settings);
optim::InitSpec ReadInit(const Config& settings, optim::InitKind fallback, uint32_t fan_in, uint32_t fan_out);
// `activation:`, none when it is left out.
ops::Activation ReadActivation(const Config& settings);
graph::Value Activate(graph::Graph& graph, graph::Value x, ops::Activation activation);

// A list of sizes, or one size: [28, 28, 1].
Shape ReadShape(const Config& config);

// The shape of so many rows.
Shape WithBatch(int64_t batch, const Shape& row);

// Elements of a shape of a row, which fits 32 bits; fails otherwise.
uint32_t Elements(const LayerRequest& request);

template <class T>
std::shared_ptr<const Layer> Make(const LayerRequest& request) {
  return std::make_shared<T>(request);
}

}  // namespace leat::nn
