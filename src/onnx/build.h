// Turning the nodes of a file into nodes of a graph, for a batch of a given size.
//
// ONNX's images have their channels first, Leat's last. A value of four axes may therefore be in the graph in
// either order, and is turned round where a node needs the other one, once: a chain of convolutions, norms
// and activations stays channels last from end to end.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "nn/layer.h"
#include "onnx/file.h"

namespace leat::onnx {

// A value of the file while a graph is built.
struct OnnxValue {
  DType type = DType::kF32;
  Shape shape;                        // in the file's order of axes
  std::optional<Tensor> known;        // where it depends on neither data nor weights
  std::optional<graph::Value> plain;  // in the file's order of axes
  std::optional<graph::Value> last;   // four axes, the channels last
};

// Which batch a file was made for, and the shapes that its values have there: what sizes that the file holds
// as numbers are understood by when the batch is another.
struct FixedBatch {
  int64_t batch = 0;
  std::unordered_map<std::string, Shape> shapes;
};

class Builder;

// One node, as the function sees it that turns it into graph nodes. Whatever does not fit throws
// std::invalid_argument; Builder puts file and node before it.
class NodeContext {
 public:
  NodeContext(Builder& b, const FileNode& n) : node(n), builder_(b) {}

  bool Has(size_t i) const { return i < node.inputs.size() && !node.inputs[i].empty(); }
  size_t inputs() const { return node.inputs.size(); }
  const OnnxValue& In(size_t i) const;
  const Shape& ShapeOf(size_t i) const { return In(i).shape; }
  // In the graph, in the file's order of axes, or with channels last (four axes).
  graph::Value Plain(size_t i) const;
  graph::Value ChannelsLast(size_t i) const;
  // Whether it lies channels last without further work.
  bool IsLast(size_t i) const { return In(i).last.has_value() && !In(i).plain.has_value(); }
  // The same, f32.
  graph::Value F32(size_t i) const;
  graph::Value F32Last(size_t i) const;
  // Elements that have to be known when the file is read.
  const Tensor& Known(size_t i) const;
  std::vector<int64_t> KnownInts(size_t i) const;
  // The one element of a known number.
  float KnownScalar(size_t i) const;

  void Out(size_t i, graph::Value plain) const;
  void OutLast(size_t i, graph::Value last) const;
  void OutKnown(size_t i, Tensor tensor) const;
  // Output i is input j in all it is.
  void Forward(size_t i, size_t j) const;
  bool Wants(size_t i) const { return i < node.outputs.size() && !node.outputs[i].empty(); }

  // Whether an input is the given initializer's, trained; for statistics, its graph value.
  graph::Graph& graph() const;
  nn::StepContext& step() const;
  int64_t opset() const;
  const FixedBatch* fixed() const;
  int64_t batch() const;

  const FileNode& node;

 private:
  OnnxValue& Find(size_t i) const;
  Builder& builder_;
};

using BuildOp = void (*)(const NodeContext& call);
struct OpRow {
  std::string_view op;  // "Conv"
  BuildOp build;
};
// By family; Builder asks all of them.
std::span<const OpRow> MathOps();
std::span<const OpRow> ShapeOps();
std::span<const OpRow> ImageOps();
std::span<const OpRow> SequenceOps();
// Whether that op of ONNX's own domain is among them.
BuildOp FindOp(std::string_view op);

class Builder {
 public:
  // All outlive the builder. `fixed`: nullptr where the file's batch is symbolic.
  Builder(const File& file, graph::Graph& graph, nn::StepContext& step, int64_t batch,
          const FixedBatch* fixed)
      : file_(file), graph_(graph), step_(step), batch_(batch), fixed_(fixed) {}

  // The file's input, or an initializer that is a variable. Others become constants where they are needed.
  void Set(const std::string& name, graph::Value plain);
  void SetLast(const std::string& name, graph::Value last);
  // The nodes up to the one that makes `output`.
  void Run(const std::string& output);
  graph::Value Plain(const std::string& name);
  // The same, channels last where it lies so already; says which.
  std::pair<graph::Value, bool> AsItLies(const std::string& name);
  const std::unordered_map<std::string, OnnxValue>& values() const { return values_; }

 private:
  friend class NodeContext;
  OnnxValue& Find(const std::string& name);
  bool FoldNode(const FileNode& node);
  graph::Value MakePlain(OnnxValue& val);
  graph::Value MakeLast(OnnxValue& val);

  const File& file_;
  graph::Graph& graph_;
  nn::StepContext& step_;
  const int64_t batch_;
  const FixedBatch* fixed_;
  std::unordered_map<std::string, OnnxValue> values_;
  int64_t folded_ = 0;  // elements of all constants so far
};

// A name as graphs, variables and checkpoints have them: letters, digits, _ - and . alone.
std::string PlainName(std::string_view name);

}  // namespace leat::onnx
