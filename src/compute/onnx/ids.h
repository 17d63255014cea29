// The ids among a network's inputs: elements of a row that it only uses to look up rows of a table.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compute/onnx/build.h"
#include "compute/onnx/file.h"

namespace leat::onnx {

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

}  // namespace leat::onnx
