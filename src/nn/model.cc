#include "nn/model.h"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <string_view>

#include "base/check.h"
#include "graph/gradient.h"
#include "ops/ops.h"

namespace leat::nn {
namespace {

using graph::Value;

// All variables of a model must fit here: far above what f32 networks have, far below where sizes overflow.
constexpr uint64_t kMaxParameters = uint64_t{1} << 36;

uint32_t ReadInputs(const Config& config, uint32_t features) {
  const auto inputs = config.Integer("inputs", features, 1, 1 << 24);
  if (inputs == 0) config.Fail("model has no 'inputs', and there is no schema to take them from");
  if (features != 0 && inputs != features) {
    config.At("inputs").Fail("inputs is " + std::to_string(inputs) + ", but the schema makes " +
                             std::to_string(features) + " features of a record");
  }
  return static_cast<uint32_t>(inputs);
}

// The cross entropies bring their own softmax or sigmoid: one more before them trains badly and says nothing.
void CheckActivation(const LossSpec& loss, const Layer& last) {
  const bool own = loss.kind == LossKind::kSoftmaxCrossEntropy || loss.kind == LossKind::kSigmoidCrossEntropy;
  if (!own || !last.has_activation()) return;
  throw std::invalid_argument(last.where() + ": layer " + last.name() + " has an activation, but loss " +
                              std::string(Name(loss.kind)) + " takes the plain outputs of the last layer");
}

}  // namespace

Model Model::FromConfig(const Config& config, uint32_t input_features) {
  config.Allow({"inputs", "layers", "loss"});
  Model model;
  model.inputs_ = ReadInputs(config, input_features);
  const Config layers = config.At("layers");
  if (layers.size() == 0) layers.Fail("layers is empty; a model has at least one");

  uint32_t width = model.inputs_;
  uint64_t parameters = 0;
  std::map<std::string, uint32_t> number;
  std::set<std::string> names;
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto layer = MakeLayer(layers[i], width, ++number[LayerKind(layers[i])]);
    if (!names.insert(layer->name()).second)
      layers[i].Fail("two layers have the name '" + layer->name() + "'");
    for (auto& variable : layer->variables()) {
      parameters += static_cast<uint64_t>(variable.shape.elements());
      if (parameters > kMaxParameters) {
        layers[i].Fail("layer " + layer->name() + ": with " + variable.name + variable.shape.ToString() +
                       " the model has more than 2^36 parameters");
      }
      model.variables_.push_back(std::move(variable));
    }
    width = layer->outputs();
    model.layers_.push_back(layer);
  }
  model.outputs_ = width;

  model.loss_ = LossSpec::FromConfig(config.At("loss"));
  CheckActivation(model.loss_, *model.layers_.back());
  model.task_ = TaskOf(model.loss_, width, model.layers_.back()->name());
  return model;
}

uint64_t Model::parameters() const {
  uint64_t sum = 0;
  for (const auto& variable : variables_) sum += static_cast<uint64_t>(variable.shape.elements());
  return sum;
}

uint32_t Model::classes() const {
  if (task_ == Task::kBinary) return 2;
  return task_ == Task::kClasses ? outputs_ : 0;
}

StepGraph Model::Build(uint32_t batch) const {
  LEAT_CHECK(batch > 0);
  StepGraph step;
  graph::Graph& graph = step.graph;
  const auto placeholder = [&](std::string_view name, Shape shape) {
    return graph.Add(std::make_shared<graph::Placeholder>(TensorType{DType::kF32, shape}), {}, name);
  };
  step.features = placeholder("features", {batch, inputs_});
  step.labels = placeholder("labels", {batch});
  step.weights = placeholder("weights", {batch});

  Value x = step.features;
  for (const auto& layer : layers_) {
    std::vector<Value> own;
    for (const auto& variable : layer->variables()) {
      const TensorType type{DType::kF32, variable.shape};
      own.push_back(graph.Add(std::make_shared<graph::Variable>(type), {}, variable.name));
    }
    step.variables.insert(step.variables.end(), own.begin(), own.end());
    const graph::Graph::Scope scope(graph, layer->name(), layer->where());
    x = layer->Apply(graph, x, own);
  }
  const auto [loss, scores] = AddLoss(graph, loss_, x, step.labels, step.weights);
  step.loss = loss;
  step.scores = scores;
  step.gradients = graph::Gradients(graph, loss, step.variables);
  return step;
}

std::string Model::ToString() const {
  std::string text = std::to_string(inputs_);
  for (const auto& layer : layers_) text += "-" + std::to_string(layer->outputs());
  return text + " " + std::string(Name(loss_.kind)) + ", " + std::to_string(parameters()) + " parameters";
}

uint64_t CountCorrect(const Model& model, std::span<const float> scores, std::span<const float> labels) {
  if (model.classes() == 0) return 0;
  uint64_t correct = 0;
  const size_t width = model.outputs();
  LEAT_CHECK(scores.size() >= labels.size() * width);
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto row = scores.subspan(i * width, width);
    const auto best = width == 1 ? (row[0] >= 0.5f ? 1 : 0) : std::ranges::max_element(row) - row.begin();
    correct += labels[i] == static_cast<float>(best);
  }
  return correct;
}

void PositiveScores(const Model& model, std::span<const float> scores, std::span<float> out) {
  LEAT_CHECK(model.task() == Task::kBinary && scores.size() >= out.size() * model.outputs());
  // The last of a row: of one or of two.
  const size_t width = model.outputs();
  for (size_t i = 0; i < out.size(); ++i) out[i] = scores[i * width + width - 1];
}

}  // namespace leat::nn
