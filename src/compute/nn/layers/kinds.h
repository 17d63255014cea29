// Factories of all kinds of layers. compute/nn/layer.cc maps names to them.
#pragma once

#include "compute/nn/layer.h"

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

}  // namespace leat::nn
