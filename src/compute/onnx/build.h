// Converts the nodes of an ONNX file to graph nodes, for a given batch size.
//
// Images have channels first in ONNX and last in Leat. So a value with four axes may be in the graph in
// either layout. It is transposed, once, when a node needs the other layout. Chains of convolutions, norms
// and activations stay channels last.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compute/graph/graph.h"
#include "compute/nn/layer.h"
#include "compute/onnx/file.h"

namespace leat::onnx {

using graph::Graph;
using graph::Value;

// A value of the file while the graph is built.
struct OnnxValue {
  DType type = DType::kF32;
  Shape shape;                        // in the file's layout
  std::optional<Tensor> known;        // set if it depends on neither data nor weights
  std::optional<graph::Value> plain;  // in the file's layout
  std::optional<graph::Value> last;   // channels last, four axes
};

// For a file that was exported with a fixed batch size: that size, and the shapes of all values. With another
// batch size, they show which constant sizes in the file contain the batch.
struct FixedBatch {
  int64_t batch = 0;
  std::unordered_map<std::string, Shape> shapes;
};

class Builder {
 public:
  // The arguments must outlive the builder. `fixed` is null if the file's batch is symbolic. `bounded`:
  // values that are in range as indices.
  Builder(const File& file, graph::Graph& graph, nn::StepContext& step, int64_t batch,
          const FixedBatch* fixed, const std::unordered_set<std::string>* bounded)
      : file_(file), graph_(graph), step_(step), batch_(batch), fixed_(fixed), bounded_(bounded) {}

  // Sets the file's input, or an initializer that is a variable. Other initializers become constants when
  // needed.
  void Set(const std::string& name, graph::Value plain);
  void SetLast(const std::string& name, graph::Value last);
  // Converts the nodes up to the one that computes `output`.
  void Run(const std::string& output);
  // The value in its current layout, and whether that is channels last.
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
  const std::unordered_set<std::string>* bounded_;
  std::unordered_map<std::string, OnnxValue> values_;
  int64_t folded_ = 0;  // elements of all constants so far
};

// The view of one node for the function that converts it. Errors throw std::invalid_argument; Builder
// prepends file and node to the message.
class NodeContext {
 public:
  NodeContext(Builder& b, const FileNode& n) : node(n), builder_(b) {}

  bool Has(size_t i) const { return i < node.inputs.size() && !node.inputs[i].empty(); }
  size_t inputs() const { return node.inputs.size(); }
  const OnnxValue& In(size_t i) const { return Find(i); }
  // Whether its type is bool; other u8 values are numbers.
  bool IsBool(size_t i) const { return Has(i) && builder_.file_.bools.contains(node.inputs[i]); }
  // Whether its elements are valid indices wherever it is one.
  bool IsBounded(size_t i) const { return Has(i) && builder_.bounded_->contains(node.inputs[i]); }
  const Shape& ShapeOf(size_t i) const { return In(i).shape; }
  // Input i as a graph value, in the file's layout or with channels last (four axes).
  graph::Value Plain(size_t i) const { return builder_.MakePlain(Find(i)); }
  graph::Value ChannelsLast(size_t i) const { return builder_.MakeLast(Find(i)); }
  // Whether it exists only with channels last.
  bool IsLast(size_t i) const { return In(i).last.has_value() && !In(i).plain.has_value(); }
  // Like Plain and ChannelsLast, but fail unless it is f32.
  graph::Value F32(size_t i) const;
  graph::Value F32Last(size_t i) const;
  graph::Value F32(size_t i, bool last) const { return last ? F32Last(i) : F32(i); }
  // The elements of an input that must be constant.
  const Tensor& Known(size_t i) const;
  std::vector<int64_t> KnownInts(size_t i) const;
  // The only element of a constant f32 input.
  float KnownScalar(size_t i) const;

  // Sets output i, in the file's layout or with channels last.
  void Put(size_t i, graph::Value value, bool last) const;
  void Out(size_t i, graph::Value plain) const { Put(i, plain, false); }
  void OutLast(size_t i, graph::Value last) const { Put(i, last, true); }
  void OutKnown(size_t i, Tensor tensor) const;
  // Makes output i equal to input j.
  void Forward(size_t i, size_t j) const;
  bool Wants(size_t i) const { return i < node.outputs.size() && !node.outputs[i].empty(); }

  graph::Graph& graph() const { return builder_.graph_; }
  nn::StepContext& step() const { return builder_.step_; }
  int64_t opset() const { return builder_.file_.opset; }
  const FixedBatch* fixed() const { return builder_.fixed_; }

  const FileNode& node;

 private:
  OnnxValue& Find(size_t i) const;
  [[noreturn]] void FailType(size_t i, const std::string& wanted) const;
  Builder& builder_;
};

using BuildOp = void (*)(const NodeContext& call);
struct OpRow {
  std::string_view op;  // "Conv"
  BuildOp build;
};
// The supported ops by family.
std::span<const OpRow> MathOps();
std::span<const OpRow> ShapeOps();
std::span<const OpRow> ImageOps();
std::span<const OpRow> SequenceOps();
// The converter of an op of the default ONNX domain, nullptr if it is not supported.
BuildOp FindOp(std::string_view op);

// Converts numbers to bools: 1 where x is not 0, NaN included.
graph::Value ToBool(graph::Graph& graph, graph::Value x);

// Converts a name to one for graphs, variables and checkpoints, with only letters, digits, '_', '-' and '.'.
std::string PlainName(std::string_view name);

}  // namespace leat::onnx
