// Constant folding on import. Exporters write shape computations as small graphs, such as
// Shape → Gather → Concat → Reshape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compute/onnx/build.h"
#include "compute/onnx/file.h"
#include "compute/tensor/tensor.h"

namespace leat::onnx {

// The most elements of a folded constant.
constexpr int64_t kMaxFolded = int64_t{1} << 22;

// With `to_bool`, every element but 0 becomes 1. Throws std::invalid_argument for more than kMaxFolded
// elements, or a type that is not supported.
Tensor Converted(const Tensor& from, DType to, bool to_bool);

// The result of a node for constant inputs (nullptr: omitted input); empty if the op is not folded. Integers
// are computed in 64 bits. Throws std::invalid_argument on overflow, an index out of range, a division by
// zero, or a result of more than kMaxFolded elements.
std::optional<Tensor> Fold(const FileNode& node, std::span<const Tensor* const> inputs);

// The ids among a network's inputs: elements of a row that it only uses to look up rows of a table.

struct Ids {
  // For each element of a row, the rows of its smallest table; 0: it is no id. Empty: no element is one.
  std::vector<uint32_t> limits;
  // Indices that are in range if the ids are below their limits.
  std::unordered_set<std::string> bounded;
};

// `columns` is i64 of the shape of the file's input, and says for each element which element of the row it
// is. `values`: those of a graph for as many rows. Ops that move and select elements are followed; other ops
// make indices whose range is unknown.
Ids FindIds(const File& file, const Tensor& columns,
            const std::unordered_map<std::string, OnnxValue>& values);

// Checks that a network computes each row of a batch from that row alone. Short batches are padded with rows
// that must not affect any result, and PyTorch's networks mean the batch that they are given.

// The values of a file while a graph was built for `batch` rows.
struct BatchValues {
  int64_t batch = 0;
  std::unordered_map<std::string, OnnxValue> values;
};

// Compares the shapes for two batch sizes, which must be coprime. Throws std::invalid_argument with the first
// node that mixes rows. BatchNormalization mixes rows on purpose, and leaves out padding.
void CheckRows(const File& file, const BatchValues& a, const BatchValues& b);

// Whether CheckRows knows the op. It refuses others.
bool KnowsRowsOf(std::string_view op);

}  // namespace leat::onnx
