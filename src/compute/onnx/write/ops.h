// The functions that write each op, by family, and their common helpers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compute/onnx/write/writer.h"

namespace leat::onnx {

using WriteOp = void (*)(Writer& writer, const graph::Node& node);
// The function that writes ops of this kind, nullptr if they are not supported.
WriteOp FindWriter(std::string_view kind);

struct WriterTable {
  // Adds the writer of a kind of op that has none yet; a second one is a bug.
  void Add(std::string_view kind, WriteOp write);

  std::unordered_map<std::string_view, WriteOp> writers;
};

// Each adds the writers of a family.
void AddMathWriters(WriterTable& table);
void AddImageWriters(WriterTable& table);
void AddShapeWriters(WriterTable& table);
void AddSequenceWriters(WriterTable& table);

using graph::Node;
using graph::Value;
using Ints = std::vector<int64_t>;

inline Value Out(const Node& node, uint32_t output = 0) {
  return {node.index, output};
}

template <class O>
const O& As(const Node& node) {
  return static_cast<const O&>(*node.op);
}

// Positions of batch, height, width, channels in channels-first layout.
constexpr int64_t kPlaceFirst[] = {0, 2, 3, 1};

// Whether only a bias_add reads the node's output; the bias_add then writes both.
bool LeftToBias(Writer& w, const Node& node);
// Writes a convolution, with its bias unless that is empty.
std::string ConvAs(Writer& w, const Node& node, const std::string& bias, const std::string& name);
// Whether a product or bias is written as part of a recurrent op, because nothing else reads it.
bool LeftToRecurrent(const Writer& w, const Node& node);

template <WriteOp write>
void UnlessRecurrent(Writer& w, const Node& node) {
  if (!LeftToRecurrent(w, node)) write(w, node);
}

}  // namespace leat::onnx
