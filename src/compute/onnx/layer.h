// - onnx: {file: net.onnx, output: logits}
//     a network from an ONNX file, with its weights. output is the value that the layer returns; default: the
//     file's first output. If the file ends with a softmax, set output to its input, since the loss includes
//     a softmax.
#pragma once

#include <span>

#include "compute/nn/layer.h"
#include "compute/onnx/network.h"

namespace leat::onnx {

// The onnx layer, for nn::ModelContext::kinds.
std::span<const nn::LayerKind> LayerKinds();

// The network of an onnx layer, nullptr for other layers.
const Network* NetworkOf(const nn::Layer& layer);

}  // namespace leat::onnx
