// Readers for settings that several kinds of layers have.
//
// All of them fail with the line of the job file if a setting is missing or invalid.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "compute/nn/layer.h"
#include "compute/ops/matrix/matrix.h"

namespace leat::nn {

// Fails on a setting that is neither in `known` nor common to all layers.
void AllowSettings(const Config& settings, std::initializer_list<std::string_view> known);

// `units:`, required.
uint32_t ReadUnits(const Config& settings);
optim::InitSpec ReadInit(const Config& settings, optim::InitKind fallback, uint32_t fan_in, uint32_t fan_out);
// `activation:`, none by default.
ops::Activation ReadActivation(const Config& settings);
graph::Value Activate(graph::Graph& graph, graph::Value x, ops::Activation activation);

// A list of sizes, or one size: [28, 28, 1].
Shape ReadShape(const Config& config);

// The shape of a batch of rows.
Shape WithBatch(int64_t batch, const Shape& row);

// Number of elements of a row. Fails if it exceeds 32 bits.
uint32_t Elements(const LayerRequest& request);

template <class T>
std::shared_ptr<const Layer> Make(const LayerRequest& request) {
  return std::make_shared<T>(request);
}

}  // namespace leat::nn
