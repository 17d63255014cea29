// Factories of all kinds of layers. compute/nn/layer.cc maps names to them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "compute/nn/layer.h"
#include "compute/ops/matrix/matrix.h"

namespace leat::nn {

std::shared_ptr<const Layer> MakeAvgPool(const LayerRequest& request);
std::shared_ptr<const Layer> MakeBias(const LayerRequest& request);
std::shared_ptr<const Layer> MakeConv2d(const LayerRequest& request);
std::shared_ptr<const Layer> MakeConv2dTranspose(const LayerRequest& request);
std::shared_ptr<const Layer> MakeDense(const LayerRequest& request);
std::shared_ptr<const Layer> MakeEmbedding(const LayerRequest& request);
std::shared_ptr<const Layer> MakeFlatten(const LayerRequest& request);
std::shared_ptr<const Layer> MakeGlobalAvgPool(const LayerRequest& request);
std::shared_ptr<const Layer> MakeGlobalMaxPool(const LayerRequest& request);
std::shared_ptr<const Layer> MakeGru(const LayerRequest& request);
std::shared_ptr<const Layer> MakeLstm(const LayerRequest& request);
std::shared_ptr<const Layer> MakeMaxPool(const LayerRequest& request);
std::shared_ptr<const Layer> MakeReshape(const LayerRequest& request);
std::shared_ptr<const Layer> MakeAttention(const LayerRequest& request);
std::shared_ptr<const Layer> MakeBatchNorm(const LayerRequest& request);
std::shared_ptr<const Layer> MakeDropout(const LayerRequest& request);
std::shared_ptr<const Layer> MakeGelu(const LayerRequest& request);
std::shared_ptr<const Layer> MakeLayerNorm(const LayerRequest& request);
std::shared_ptr<const Layer> MakePosition(const LayerRequest& request);
std::shared_ptr<const Layer> MakeRelu(const LayerRequest& request);
std::shared_ptr<const Layer> MakeResidual(const LayerRequest& request);
std::shared_ptr<const Layer> MakeRnn(const LayerRequest& request);
std::shared_ptr<const Layer> MakeSigmoid(const LayerRequest& request);
std::shared_ptr<const Layer> MakeSilu(const LayerRequest& request);
std::shared_ptr<const Layer> MakeSoftmax(const LayerRequest& request);
std::shared_ptr<const Layer> MakeSoftplus(const LayerRequest& request);
std::shared_ptr<const Layer> MakeTanh(const LayerRequest& request);

// Readers for settings that several kinds of layers have.
//
// All of them fail with the line of the job file if a setting is missing or invalid.

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
