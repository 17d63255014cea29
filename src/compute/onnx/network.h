// A network imported from an ONNX file, for further training.
//
// Supports files of opset 13 to 21 with one input whose first axis is the batch, as exported by PyTorch and
// tf2onnx. The batch may be symbolic or fixed; other symbolic sizes are taken from the row shape. Weights
// become variables with the names and initial values of the file; other constants stay constant. The file may
// say which initializers are weights (Treatment in file.h); otherwise it follows from their use.
#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compute/graph/graph.h"
#include "compute/nn/layer.h"
#include "compute/onnx/build.h"
#include "compute/onnx/file.h"
#include "compute/onnx/fold.h"

namespace leat::onnx {

struct ImportOptions {
  // The value that the network returns; empty: the file's first output.
  std::string output;
  // Shape of an input row: the file's shape without the batch; the same with channels last, for an image; or
  // one axis with all elements.
  Shape row;
};

// Immutable; thread-safe.
class Network {
 public:
  // Checks everything, so that Apply cannot fail. Throws std::invalid_argument with file, node and values;
  // unsupported ops are all listed in one message.
  static std::shared_ptr<const Network> Import(std::string_view bytes, const std::string& name,
                                               const ImportOptions& options);

  const std::string& name() const { return file_.name; }
  Shape outputs() const { return outputs_; }  // per row; images with channels last
  // The variables in the file's order, named `prefix`/initializer, with '_' for characters that names cannot
  // contain.
  std::vector<optim::VariableSpec> variables(const std::string& prefix) const;
  // The initializers of the variables, in the same order.
  const std::vector<std::string>& trained() const { return trained_; }
  // Adds the network to a graph: x f32[batch, row...], variables in the order of variables().
  graph::Value Apply(graph::Graph& graph, graph::Value x, std::span<const graph::Value> variables,
                     nn::StepContext& step) const;
  // For each element of a row: if > 0, it must be a whole number in [0, ids()[i]). Empty: no element does.
  const std::vector<uint32_t>& ids() const { return ids_.limits; }
  // Whether the output has the values of an activation that a loss may include.
  bool has_activation() const { return has_activation_; }
  // The content of the file.
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
  void TakeTreatments();
  // `taken`: names of variables so far.
  void AddVariable(const std::string& name, optim::VariableRole role, std::set<std::string>* taken);
  // Takes the values of a trial with `batch` rows.
  void FindIds(int64_t batch, const std::unordered_map<std::string, OnnxValue>& values);
  void FitInput(const Shape& row);
  void CheckShapes();
  void CheckGradient() const;
  // Builds the network in its own graph, with placeholders as rows.
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
  bool row_last_ = false;           // rows are images with channels last
  Shape row_, outputs_;
  Ids ids_;
  bool has_activation_ = false;
};

// - onnx: {file: net.onnx, output: logits}
//     a network from an ONNX file, with its weights. output is the value that the layer returns; default: the
//     file's first output. If the file ends with a softmax, set output to its input, since the loss includes
//     a softmax.

// The onnx layer, for nn::ModelContext::kinds.
std::span<const nn::LayerKind> LayerKinds();

// The network of an onnx layer, nullptr for other layers.
const Network* NetworkOf(const nn::Layer& layer);

}  // namespace leat::onnx
