// Checks that a network computes each row of a batch from that row alone. Short batches are padded with rows
// that must not affect any result, and PyTorch's networks mean the batch that they are given.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "compute/onnx/build.h"
#include "compute/onnx/file.h"

namespace leat::onnx {

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
