// Converts an ONNX file exported for training to its inference form.
#pragma once

#include "compute/onnx/onnx.pb.h"

namespace leat::onnx {

// Removes training_mode from Dropout and BatchNormalization, and their mask and statistics outputs. Removes
// nodes of the training domain. Then removes everything that depends on removed values, including graph
// outputs, and everything that only removed nodes used. A file without such nodes is unchanged. Throws
// std::invalid_argument if the first graph output would be removed.
void ToInferenceForm(proto::ModelProto* file);

}  // namespace leat::onnx
