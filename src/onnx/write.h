// Writing the nodes of a graph as those of an ONNX file.
//
// As when reading (onnx/build.h), images lie channels first in the one and last in the other, and are turned
// round only where a node needs the other order.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "onnx/onnx.pb.h"

namespace leat::onnx {

class Writer {
 public:
  // `graph` and `other` are the same graph for two sizes of batch; where their shapes differ, sizes depend on
  // it. Both may be one, then all sizes are fixed. All outlive the writer.
  Writer(const graph::Graph& graph, const graph::Graph& other, proto::GraphProto* file);

  // What stands for a placeholder or variable.
  void Set(graph::Value v, const std::string& name) { plain_[v] = name; }
  void SetVariable(graph::Value v, const std::string& name, std::span<const float> values);
  // Writes everything that `result` needs, and it under that name. Throws as Export does.
  void Write(graph::Value result, const std::string& name);

  // For the functions that write an op.
  const graph::Graph& graph() const { return graph_; }
  const Shape& shape(graph::Value v) const { return graph_.shape(v); }
  bool Varies(graph::Value v, size_t axis) const { return graph_.shape(v)[axis] != other_.shape(v)[axis]; }
  uint32_t Uses(graph::Value v) const { return uses_[v.node][v.output]; }
  // The name of a value in Leat's order of axes, or with channels first; written where it is not there yet.
  std::string Plain(graph::Value v);
  std::string First(graph::Value v);
  std::string As(graph::Value v, bool first) { return first ? First(v) : Plain(v); }
  // Whether it lies channels first without further work.
  bool IsFirst(graph::Value v) const { return first_.contains(v) && !plain_.contains(v); }
  // Says that `v` is there under that name.
  void Put(graph::Value v, bool first, const std::string& name) { (first ? first_ : plain_)[v] = name; }
  // Adds a node with one output of a fresh name that begins as `hint`, and returns that name.
  std::string Node(std::string_view op, const std::vector<std::string>& inputs, const std::string& hint);
  // Attributes of the node added last.
  void Attribute(const std::string& name, int64_t value);
  void Attribute(const std::string& name, float value);
  void Attribute(const std::string& name, const std::string& value);
  void Attribute(const std::string& name, const std::vector<int64_t>& values);
  void Attribute(const std::string& name, const std::vector<std::string>& values);
  // More outputs of it; an empty hint leaves one out.
  std::string Output(const std::string& hint);
  // Tensors of the file.
  std::string Ints(const std::vector<int64_t>& values, const std::string& hint);
  std::string Scalar(float value, const std::string& hint);
  std::string Floats(const Shape& shape, std::span<const float> values, const std::string& hint);
  std::string Known(const Tensor& tensor, const std::string& hint);
  // The values of a variable, for tensors that the file has in another order; throws when it is none.
  std::span<const float> VariableValues(graph::Value v) const;
  // The sizes of `v`, -1 for the one that depends on the batch. Throws when several do.
  std::vector<int64_t> Sizes(graph::Value v) const;
  [[noreturn]] void Fail(const std::string& message) const;

 private:
  void CheckOps(const std::vector<bool>& needed) const;
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

using WriteOp = void (*)(Writer& writer, const graph::Node& node);
// nullptr where there is none for ops of that kind.
WriteOp FindWriter(std::string_view kind);
// The number of ONNX for it.
int32_t TypeNumber(DType type);

}  // namespace leat::onnx
