#include "compute/onnx/export.h"

#include <limits>
#include <stdexcept>
#include <unordered_map>

#include "base/check.h"
#include "compute/onnx/network.h"
#include "compute/onnx/write/writer.h"
#include "compute/ops/ops.h"

namespace leat::onnx {
namespace {

using graph::Graph;
using graph::Value;

std::string Serialised(const proto::ModelProto& file) {
  if (file.ByteSizeLong() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    throw std::invalid_argument("the model has " + std::to_string(file.ByteSizeLong()) +
                                " bytes as ONNX; the limit is 2 GiB");
  }
  return file.SerializeAsString();
}

// The file that the network was imported from, with the current weights, in inference form.
std::string Patched(const Network& network, std::span<const std::vector<float>> values) {
  proto::ModelProto file;
  LEAT_CHECK(file.ParseFromString(network.bytes()));
  std::unordered_map<std::string, std::span<const float>> trained;
  for (size_t v = 0; v < values.size(); ++v) trained[network.trained()[v]] = values[v];
  for (auto& tensor : *file.mutable_graph()->mutable_initializer()) {
    const auto at = trained.find(tensor.name());
    if (at == trained.end()) continue;
    tensor.clear_float_data();
    tensor.clear_double_data();
    tensor.clear_int32_data();
    tensor.set_data_type(proto::TensorProto::FLOAT);
    tensor.mutable_raw_data()->assign(reinterpret_cast<const char*>(at->second.data()),
                                      at->second.size_bytes());
  }
  ToInferenceForm(&file);
  return Serialised(file);
}

struct Scoring {
  Graph graph;
  Value features, outputs;
  std::vector<Value> variables;
};

Scoring BuildScoring(const nn::Model& model, int64_t batch) {
  Scoring made;
  Graph& graph = made.graph;
  std::vector<int64_t> sizes = {batch};
  sizes.insert(sizes.end(), model.input_shape().sizes().begin(), model.input_shape().sizes().end());
  const auto leaf = [&](std::string_view name, DType type, const Shape& shape) {
    return graph.MakeNamed<graph::Placeholder>(name, {}, TensorType{type, shape});
  };
  made.features = leaf("features", DType::kF32, Shape(std::span<const int64_t>(sizes)));
  nn::StepContext step{.training = false,
                       .weights = leaf("weights", DType::kF32, Shape{batch}),
                       .random_seed = leaf("random_seed", DType::kI64, Shape{})};
  for (const auto& spec : model.variables()) {
    made.variables.push_back(
        graph.MakeNamed<graph::Variable>(spec.name, {}, TensorType{DType::kF32, spec.shape}));
  }
  made.outputs = model.Apply(graph, made.features, made.variables, step);
  return made;
}

void Describe(proto::ValueInfoProto* info, const std::string& name, const Shape& shape, bool symbolic) {
  info->set_name(name);
  auto* tensor = info->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(proto::TensorProto::FLOAT);
  for (size_t i = 0; i < shape.rank(); ++i) {
    auto* dim = tensor->mutable_shape()->add_dim();
    if (i == 0 && symbolic) {
      dim->set_dim_param("batch");
    } else {
      dim->set_dim_value(shape[i]);
    }
  }
}

}  // namespace

std::string Export(const nn::Model& model, std::span<const std::vector<float>> values,
                   const ExportOptions& options) {
  LEAT_CHECK(values.size() == model.variables().size() && options.batch >= 0);
  const auto& layers = model.layers().all();
  const Network* network = layers.size() == 1 && !model.scales() ? NetworkOf(*layers[0]) : nullptr;
  if (network != nullptr) return Patched(*network, values);

  const bool symbolic = options.batch == 0;
  const Scoring scoring = BuildScoring(model, symbolic ? 3 : options.batch);
  const Scoring other = BuildScoring(model, symbolic ? 5 : options.batch);
  proto::ModelProto file;
  file.set_ir_version(8);
  file.set_producer_name("Leat");
  file.add_opset_import()->set_version(17);
  auto* graph = file.mutable_graph();
  graph->set_name(options.name);
  Writer writer(scoring.graph, other.graph, graph);
  writer.Set(scoring.features, "features");
  for (size_t v = 0; v < values.size(); ++v) {
    LEAT_CHECK(values[v].size() == static_cast<size_t>(model.variables()[v].shape.elements()));
    writer.SetVariable(scoring.variables[v], model.variables()[v].name, values[v]);
  }
  writer.Write(scoring.outputs, "outputs");
  const Shape& outputs = scoring.graph.shape(scoring.outputs);
  Describe(graph->add_input(), "features", scoring.graph.shape(scoring.features), symbolic);
  Describe(graph->add_output(), "outputs", outputs, symbolic);
  const auto kind = model.loss().kind;
  const bool softmax = kind == nn::LossKind::kSoftmaxCrossEntropy;
  if (softmax || kind == nn::LossKind::kSigmoidCrossEntropy) {
    auto* node = graph->add_node();
    node->set_op_type(softmax ? "Softmax" : "Sigmoid");
    node->set_name("scores");
    node->add_input("outputs");
    node->add_output("scores");
    Describe(graph->add_output(), "scores", outputs, symbolic);
  }
  return Serialised(file);
}

}  // namespace leat::onnx
