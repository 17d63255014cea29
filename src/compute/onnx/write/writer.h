// Writes the nodes of a graph as nodes of an ONNX file.
//
// As on import (compute/onnx/build.h), images have channels last in Leat and first in ONNX, and are
// transposed only when a node needs the other layout.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "compute/graph/graph.h"
#include "compute/onnx/onnx.pb.h"

namespace leat::onnx {

class Writer {
 public:
  // `graph` and `other` are the same graph for two batch sizes; sizes that differ depend on the batch. For a
  // fixed batch, pass the same graph twice. The arguments must outlive the writer.
  Writer(const graph::Graph& graph, const graph::Graph& other, proto::GraphProto* file);

  // Sets the ONNX name of a placeholder, or the name and values of a variable.
  void Set(graph::Value v, const std::string& name) { plain_[v] = name; }
  void SetVariable(graph::Value v, const std::string& name, std::span<const float> values);
  // Writes `result` under `name`, with everything it depends on. Throws as Export does.
  void Write(graph::Value result, const std::string& name);

  // The rest is for the functions that write an op.
  const graph::Graph& graph() const { return graph_; }
  const Shape& shape(graph::Value v) const { return graph_.shape(v); }
  bool Varies(graph::Value v, size_t axis) const { return graph_.shape(v)[axis] != other_.shape(v)[axis]; }
  uint32_t Uses(graph::Value v) const { return uses_[v.node][v.output]; }
  // The name of a value in Leat's layout, or with channels first. Writes a transpose if necessary.
  std::string Plain(graph::Value v);
  std::string First(graph::Value v);
  std::string As(graph::Value v, bool first) { return first ? First(v) : Plain(v); }
  // Whether it exists only with channels first.
  bool IsFirst(graph::Value v) const { return first_.contains(v) && !plain_.contains(v); }
  // Records that `v` is written under `name`.
  void Put(graph::Value v, bool first, const std::string& name) { (first ? first_ : plain_)[v] = name; }
  // Adds a node with one output and returns the name of that output, a new name starting with `hint`.
  std::string Node(std::string_view op, const std::vector<std::string>& inputs, const std::string& hint);
  // Adds an attribute to the last node.
  void Attribute(const std::string& name, int64_t value);
  void Attribute(const std::string& name, float value);
  void Attribute(const std::string& name, const std::string& value);
  void Attribute(const std::string& name, const std::vector<int64_t>& values);
  void Attribute(const std::string& name, const std::vector<std::string>& values);
  // Adds another output to the last node; an empty hint omits it.
  std::string Output(const std::string& hint);
  // Add a constant tensor and return its name.
  std::string Ints(const std::vector<int64_t>& values, const std::string& hint);
  std::string Scalar(float value, const std::string& hint);
  std::string Floats(const Shape& shape, std::span<const float> values, const std::string& hint);
  std::string Known(const Tensor& tensor, const std::string& hint);
  // The values of a variable, for tensors that are written in another order. Fails if `v` is not a variable.
  std::span<const float> VariableValues(graph::Value v) const;
  // The sizes of `v`, with -1 for the one that depends on the batch. Fails if several do.
  std::vector<int64_t> Sizes(graph::Value v) const;
  [[noreturn]] void Fail(const std::string& message) const;

 private:
  void CheckOps(const std::vector<bool>& needed) const;
  // The attribute is added to the last node.
  proto::AttributeProto& AddAttribute(const std::string& name, proto::AttributeProto::AttributeType type);
  std::string Fresh(const std::string& hint);

  const graph::Graph& graph_;
  const graph::Graph& other_;
  proto::GraphProto* file_;
  std::map<graph::Value, std::string> plain_, first_;
  std::map<graph::Value, std::pair<std::string, std::span<const float>>> variables_;
  std::set<std::string> names_;
  std::vector<std::vector<uint32_t>> uses_;
  const graph::Node* current_ = nullptr;
};

// The TensorProto.DataType number of a type.
int32_t TypeNumber(DType type);

using WriteOp = void (*)(Writer& writer, const graph::Node& node);
// The function that writes ops of this kind, nullptr if they are not supported.
WriteOp FindWriter(std::string_view kind);

struct WriterTable {
  // Adds the writer of a kind of op that has none yet; a second one is a bug.
  void Add(std::string_view kind, WriteOp write) {
    const bool is_new = writers.emplace(kind, write).second;
    LEAT_CHECK(is_new);
  }

  std::unordered_map<std::string_view, WriteOp> writers;
};

// Each adds the writers of a family.
void AddMathWriters(WriterTable& table);
void AddStructureWriters(WriterTable& table);
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

// Converts an ONNX file exported for training to its inference form.
//
// Removes training_mode from Dropout and BatchNormalization, and their mask and statistics outputs. Removes
// nodes of the training domain. Then removes everything that depends on removed values, including graph
// outputs, and everything that only removed nodes used. A file without such nodes is unchanged. Throws
// std::invalid_argument if the first graph output would be removed.
void ToInferenceForm(proto::ModelProto* file);

}  // namespace leat::onnx
