// The makers of all kinds of layers; nn/layer.cc lists them by name.
#pragma once

#include "nn/layer.h"

namespace leat::nn {

std::shared_ptr<const Layer> MakeBias(const LayerRequest& request);
std::shared_ptr<const Layer> MakeDense(const LayerRequest& request);
std::shared_ptr<const Layer> MakeFlatten(const LayerRequest& request);
std::shared_ptr<const Layer> MakeReshape(const LayerRequest& request);

}  // namespace leat::nn
