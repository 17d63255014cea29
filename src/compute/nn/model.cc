#include "compute/nn/model.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string_view>

#include "base/check.h"
#include "compute/graph/graph.h"
#include "compute/nn/layers/kinds.h"
#include "compute/ops/ops.h"

namespace leat::nn {
namespace {

// More parameters than any f32 network has, and few enough that sizes in bytes cannot overflow.
constexpr uint64_t kMaxParameters = uint64_t{1} << 36;

Shape ReadInputs(const Config& config, uint32_t features) {
  if (!config.Has("inputs")) {
    if (features == 0) config.Fail("model has no 'inputs'; set it, since there is no schema to take it from");
    return {features};
  }
  constexpr int64_t kMaxInputs = 1 << 24;
  const Shape inputs = ReadShape(config.At("inputs"));
  if (inputs.elements() > kMaxInputs) {
    config.At("inputs").Fail("inputs is " + inputs.ToString() + "; a row can have at most " +
                             std::to_string(kMaxInputs) + " features");
  }
  if (features != 0 && inputs.elements() != features) {
    config.At("inputs").Fail("inputs is " +
                             (inputs.rank() == 1 ? std::to_string(inputs[0]) : inputs.ToString()) +
                             ", but the schema gives " + std::to_string(features) + " features per record");
  }
  return inputs;
}

// The cross entropies include a softmax or sigmoid. A second one before them would train badly without an
// error.
void CheckActivation(const LossSpec& loss, const std::vector<std::shared_ptr<const Layer>>& layers) {
  const bool own = loss.kind == LossKind::kSoftmaxCrossEntropy || loss.kind == LossKind::kSigmoidCrossEntropy;
  const auto last =
      std::find_if(layers.rbegin(), layers.rend(), [](const auto& l) { return !l->keeps_values(); });
  if (!own || last == layers.rend() || !(*last)->has_activation()) return;
  throw std::invalid_argument((*last)->where() + ": layer " + (*last)->name() +
                              " has an activation, but loss " + std::string(fields::NameOf(loss.kind)) +
                              " expects the last layer without one");
}

}  // namespace

RunningScale::RunningScale(std::vector<uint32_t> columns) : columns_(columns.begin(), columns.end()) {
  LEAT_CHECK(!columns_.empty());
}

optim::VariableSpec RunningScale::variable() const {
  return {"moments", Shape{3, static_cast<int64_t>(columns_.size()), 2}, optim::InitSpec{},
          optim::VariableRole::kMoments};
}

Value RunningScale::Apply(Graph& graph, Value x, Value variable, StepContext& step) const {
  const Graph::Scope scope(graph, "features");
  const Shape row(graph.shape(x).sizes().subspan(1));
  LEAT_CHECK(columns_.back() < row.elements());
  const Value columns = graph.Make<ops::Constant>(
      {}, Tensor::Of<int32_t>(Shape{static_cast<int64_t>(columns_.size())}, columns_));
  const Value batch = graph.Make<ops::Moments>({x, step.weights, columns});
  if (step.training) step.statistics.emplace_back(variable, batch);
  const Value by = graph.Make<ops::MomentsScaling>({variable, batch, columns}, row);
  const Value shifted = graph.Make<ops::Sub>({x, by});
  const Value centred = graph.Make<ops::Sub>({shifted, Value{by.node, 1}});
  return graph.Make<ops::Mul>({centred, Value{by.node, 2}});
}

Model Model::FromConfig(const Config& config, const ModelContext& context) {
  config.Allow({"inputs", "layers", "loss"});
  Model model;
  model.input_shape_ = ReadInputs(config, context.features);
  model.labels_ = context.labels;
  model.layers_ = Layers::FromConfig(config.At("layers"), model.input_shape_, context.files, context.kinds,
                                     "", context.seed);

  if (!context.running.empty()) {
    model.scale_.emplace(context.running);
    model.variables_.push_back(model.scale_->variable());
  }
  uint64_t parameters = 0;
  for (const auto& layer : model.layers_.all()) {
    for (auto& variable : layer->variables()) {
      parameters += static_cast<uint64_t>(variable.shape.elements());
      if (parameters > kMaxParameters) {
        throw std::invalid_argument(layer->where() + ": layer " + layer->name() + ": with " + variable.name +
                                    variable.shape.ToString() + " the model has more than 2^36 parameters");
      }
      model.variables_.push_back(std::move(variable));
    }
  }

  const bool trains = std::ranges::find(model.variables_, optim::VariableRole::kTrained,
                                        &VariableSpec::role) != model.variables_.end();
  if (!trains && !model.frozen().empty())
    config.At("layers").Fail("nothing is trained: every layer with parameters has trainable: false");

  model.loss_ = LossSpec::FromConfig(config.At("loss"));
  const Layer& last = *model.layers_.all().back();
  CheckActivation(model.loss_, model.layers_.all());
  model.task_ = TaskOf(model.loss_, last.outputs(), model.labels_, last.name());
  model.outputs_ =
      static_cast<uint32_t>(last.outputs().elements()) / (model.task_ == Task::kNone ? 1 : model.labels_);
  return model;
}

uint64_t Model::parameters() const {
  uint64_t sum = 0;
  for (const auto& variable : variables_) {
    if (variable.role != optim::VariableRole::kMoments)
      sum += static_cast<uint64_t>(variable.shape.elements());
  }
  return sum;
}

uint32_t Model::classes() const {
  if (task_ == Task::kBinary) return 2;
  return task_ == Task::kClasses ? outputs_ : 0;
}

Value Model::Apply(graph::Graph& graph, Value x, std::span<const Value> variables, StepContext& step) const {
  if (scale_) {
    x = scale_->Apply(graph, x, variables.front(), step);
    variables = variables.subspan(1);
  }
  return layers_.Apply(graph, {x, {}}, variables, step).x;
}

StepGraph Model::Build(uint32_t batch, bool training) const {
  LEAT_CHECK(batch > 0);
  StepGraph step;
  graph::Graph& graph = step.graph;
  const auto placeholder = [&](std::string_view name, DType type, Shape shape) {
    return graph.Add(std::make_shared<graph::Placeholder>(TensorType{type, shape}), {}, name);
  };
  step.features = placeholder("features", DType::kF32, {batch, inputs()});
  step.labels = placeholder("labels", DType::kF32, labels_ == 1 ? Shape{batch} : Shape{batch, labels_});
  step.weights = placeholder("weights", DType::kF32, {batch});
  step.random_seed = placeholder("random_seed", DType::kI64, {});
  for (const auto& variable : variables_) {
    const TensorType type{DType::kF32, variable.shape};
    step.variables.push_back(graph.Add(std::make_shared<graph::Variable>(type), {}, variable.name));
  }

  Value x = step.features;
  if (input_shape_.rank() > 1) x = graph.Make<ops::Reshape>({x}, WithBatch(batch, input_shape_));
  StepContext context{.training = training, .weights = step.weights, .random_seed = step.random_seed};
  x = Apply(graph, x, step.variables, context);
  const auto [loss, scores] = AddLoss(graph, loss_, x, step.labels, step.weights);
  step.loss = loss;
  step.scores = scores;
  if (training) AddGradients(context, &step);
  return step;
}

void Model::AddGradients(const StepContext& context, StepGraph* step) const {
  std::vector<Value> trained;
  for (size_t v = 0; v < variables_.size(); ++v) {
    if (variables_[v].role == optim::VariableRole::kTrained) trained.push_back(step->variables[v]);
  }
  const std::vector<Value> gradients = graph::Gradients(step->graph, step->loss, trained);
  auto next = gradients.begin();
  for (size_t v = 0; v < variables_.size(); ++v) {
    if (variables_[v].role == optim::VariableRole::kTrained) {
      step->gradients.push_back(*next++);
      continue;
    }
    const auto moved = std::ranges::find(context.statistics, step->variables[v],
                                         &std::pair<graph::Value, graph::Value>::first);
    LEAT_CHECK(moved != context.statistics.end());
    step->gradients.push_back(moved->second);
  }
}

bool Model::differs_in_training() const {
  // The operations that the scores depend on.
  const auto kinds = [](const StepGraph& step) {
    std::vector<bool> needed(step.graph.nodes().size(), false);
    needed[step.scores.node] = true;
    std::vector<std::string> found;
    for (size_t i = needed.size(); i-- > 0;) {
      if (!needed[i]) continue;
      const graph::Node& node = step.graph.nodes()[i];
      found.push_back(std::string(node.op->kind()) + " " + node.op->attributes());
      for (const graph::Value& input : node.inputs) needed[input.node] = true;
    }
    return found;
  };
  return kinds(Build(2, true)) != kinds(Build(2, false));
}

std::string Model::ToString() const {
  const auto sizes = [](const Shape& shape) {
    std::string text;
    for (int64_t size : shape.sizes()) text += (text.empty() ? "" : "x") + std::to_string(size);
    return text;
  };
  std::string text = sizes(input_shape_);
  for (const auto& layer : layers_.all()) text += "-" + sizes(layer->outputs());
  return text + " " + std::string(fields::NameOf(loss_.kind)) + ", " + std::to_string(parameters()) +
         " parameters";
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

double AbsoluteError(const Model& model, std::span<const float> scores, std::span<const float> labels) {
  if (model.task() != Task::kRegression) return 0;
  LEAT_CHECK(scores.size() >= labels.size());
  double sum = 0;
  for (size_t i = 0; i < labels.size(); ++i) sum += std::abs(double{scores[i]} - labels[i]);
  return sum;
}

void PositiveScores(const Model& model, std::span<const float> scores, std::span<float> out) {
  LEAT_CHECK(model.task() == Task::kBinary && scores.size() >= out.size() * model.outputs());
  // The last score of a row is the probability of class 1, for one or two outputs.
  const size_t width = model.outputs();
  for (size_t i = 0; i < out.size(); ++i) out[i] = scores[i * width + width - 1];
}

}  // namespace leat::nn
