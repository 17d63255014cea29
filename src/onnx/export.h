// A trained network as an ONNX file, for whatever serves it.
//
// The file has one input, "features" f32[batch, inputs...], images with channels last as a job has them, and
// two outputs: "outputs", what the last layer makes, and "scores", which are these as the loss reads them
// (probabilities for the cross entropies). A network that was imported, and stands alone, is written as the
// file that it came from with the weights as they are now: names, nodes and order are its maker's. A file
// that was made for training comes out in its inference form (onnx/inference_form.h).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "nn/model.h"

namespace leat::onnx {

struct ExportOptions {
  // Rows of a batch; 0: any number, a symbolic axis.
  int64_t batch = 0;
  std::string name = "leat";  // of the graph
};

// `values`: of model.variables(), in their order. Opset 17. Throws std::invalid_argument naming all ops that
// have no counterpart, or what depends on the batch in a way that a symbolic one does not allow.
std::string Export(const nn::Model& model, std::span<const std::vector<float>> values,
                   const ExportOptions& options);

}  // namespace leat::onnx
