// - onnx: {file: net.onnx, output: logits}
//     a network out of an ONNX file, with its weights. output is the value that it ends with, the file's
//     first output when left out; a file that ends with a softmax is cut before it so that the loss can bring
//     its own.
#pragma once

#include <span>

#include "nn/layer.h"
#include "onnx/network.h"

namespace leat::onnx {

// For nn::ModelContext::kinds.
std::span<const nn::LayerKind> LayerKinds();

// The network of a layer that these kinds made, nullptr for others.
const Network* NetworkOf(const nn::Layer& layer);

}  // namespace leat::onnx
