// Constant folding on import. Exporters write shape computations as small graphs, such as
// Shape → Gather → Concat → Reshape.
#pragma once

#include <optional>
#include <span>

#include "compute/onnx/file.h"

namespace leat::onnx {

// The result of a node for constant inputs (nullptr: omitted input); empty if the op is not folded. Integers
// are computed in 64 bits. Throws std::invalid_argument on overflow, an index out of range, a division by
// zero, or a result of more than kMaxFolded elements (fold_elements.h).
std::optional<Tensor> Fold(const FileNode& node, std::span<const Tensor* const> inputs);

}  // namespace leat::onnx
