// A network out of an ONNX file, to be trained further.
//
// Read are files of opset 13 to 21 with one input, whose first axis is the batch, as PyTorch and tf2onnx
// export networks. The batch may be symbolic or a number; other sizes that are symbolic are taken from the
// rows that come in. Weights become variables that start from the file's values, under the file's names;
// everything else that is known stays a constant.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "nn/layer.h"
#include "onnx/build.h"
#include "onnx/file.h"

namespace leat::onnx {

struct ImportOptions {
  // The value that the network ends with; empty: the file's first output.
  std::string output;
  // Of a row that comes in. The file's own sizes without the batch; those of an image with channels last; or
  // one axis that has all their elements.
  Shape row;
};

// Immutable; thread-safe.
class Network {
 public:
  // Everything is checked here, so that Apply cannot fail: throws std::invalid_argument with file, node and
  // values, naming all ops that are not supported at once.
  static std::shared_ptr<const Network> Import(std::string_view bytes, const std::string& name,
                                               const ImportOptions& options);

  const std::string& name() const { return file_.name; }
  Shape outputs() const { return outputs_; }  // of a row; images with channels last
  // In the file's order, named as `prefix`, a slash and the initializer's name with '_' for what names do not
  // have.
  std::vector<optim::VariableSpec> variables(const std::string& prefix) const;
  // The initializers that they are.
  const std::vector<std::string>& trained() const { return trained_; }
  // x f32[batch, row...], variables as listed.
  graph::Value Apply(graph::Graph& graph, graph::Value x, std::span<const graph::Value> variables,
                     nn::StepContext& step) const;
  // > 0: what comes in are whole numbers from 0 to below this.
  uint32_t ids() const { return ids_; }
  // Whether the last node is an activation that a loss could bring itself.
  bool has_activation() const { return has_activation_; }
  // The bytes that it was read from.
  const std::string& bytes() const { return *bytes_; }

 private:
  struct Built {
    graph::Value value;
    bool last;
    std::unordered_map<std::string, OnnxValue> values;
  };

  void Prune();
  void CheckOps() const;
  void FindTrained();
  void FindIds();
  void FitInput(const Shape& row);
  void CheckShapes();
  void CheckGradient() const;
  // The whole in a graph of its own, for rows that are not in it.
  Built Trial(graph::Graph& graph, int64_t batch, const FixedBatch* fixed,
              std::vector<graph::Value>* variables) const;
  Built Build(graph::Graph& graph, graph::Value x, std::span<const graph::Value> variables,
              nn::StepContext& step, const FixedBatch* fixed) const;

  File file_;
  std::shared_ptr<const std::string> bytes_;
  std::string output_;
  std::vector<std::string> trained_;
  std::vector<optim::VariableSpec> variables_;  // without a prefix
  std::optional<FixedBatch> fixed_;
  std::vector<int64_t> row_sizes_;  // in the file's order
  bool row_last_ = false;           // rows come as images with channels last
  Shape row_, outputs_;
  uint32_t ids_ = 0;
  bool has_activation_ = false;
};

}  // namespace leat::onnx
