// A file exported for training, as a file that only scores.
#pragma once

#include "onnx/onnx.pb.h"

namespace leat::onnx {

// Rewrites the nodes that compute something else in training: Dropout loses its training_mode and its mask,
// BatchNormalization its training_mode and the statistics that it puts out. Nodes of the training domain go,
// with everything that is computed from what is gone, outputs of the graph among it, and with what fed only
// them. A file that has none of these is left as it is. Throws std::invalid_argument when the first output
// goes.
void ToInferenceForm(proto::ModelProto* file);

}  // namespace leat::onnx
