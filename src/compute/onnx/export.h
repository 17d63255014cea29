// Exports a trained network as an ONNX file for serving.
//
// The file has one input, "features" f32[batch, inputs...], with images channels last as in the job. It has
// two outputs: "outputs", those of the last layer, and "scores", which are probabilities for the cross
// entropies. If the network is a single imported ONNX layer, the original file is written with the current
// weights, so its names, nodes and order are preserved. A file for training is converted to its inference
// form (compute/onnx/write/writer.h).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compute/nn/model.h"

namespace leat::onnx {

struct ExportOptions {
  // Batch size; 0: symbolic, for any batch size.
  int64_t batch = 0;
  std::string name = "leat";  // name of the ONNX graph
};

// `values` are in the order of model.variables(). Writes opset 17. Throws std::invalid_argument with all ops
// that have no ONNX counterpart, or with a node that does not support a symbolic batch.
std::string Export(const nn::Model& model, std::span<const std::vector<float>> values,
                   const ExportOptions& options);

}  // namespace leat::onnx
