#include "nn/loss.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "ops/ops.h"

namespace leat::nn {
namespace {

using graph::Graph;
using graph::Value;

constexpr std::string_view kNames[] = {"softmax_cross_entropy", "sigmoid_cross_entropy", "squared_error",
                                       "negative_sum"};

// Factors of the rows' losses: w / Σ w for a mean, w for a sum.
Value RowFactors(Graph& graph, const LossSpec& loss, Value weights) {
  Value factors = weights;
  if (loss.reduction == Reduction::kMean) {
    // A batch of padding alone divides by 1: Σ w + (1 - sign Σ w), which is exactly Σ w for every other.
    const Value sum = graph.Make<ops::ReduceSum>({weights});
    const Value none = graph.Make<ops::Scale>({graph.Make<ops::Sign>({sum})}, -1.0f, 1.0f);
    factors = graph.Make<ops::Div>({weights, graph.Make<ops::Add>({sum, none})});
  }
  return loss.weight == 1 ? factors : graph.Make<ops::Scale>({factors}, loss.weight);
}

// f32[batch, 1] as f32[batch].
Value AsColumn(Graph& graph, Value outputs) {
  return graph.Make<ops::Reshape>({outputs}, Shape{graph.shape(outputs)[0]});
}

}  // namespace

std::string_view Name(LossKind kind) {
  return kNames[static_cast<size_t>(kind)];
}

LossSpec LossSpec::FromConfig(const Config& config) {
  const std::vector<std::string> names(std::begin(kNames), std::end(kNames));
  LossSpec loss;
  loss.where = config.where();
  if (config.IsMap()) config.Allow({"type", "reduction", "weight"});
  const auto name = (config.IsMap() ? config.At("type") : config).OneOf("loss", names);
  loss.kind = static_cast<LossKind>(std::ranges::find(names, name) - names.begin());
  if (loss.kind == LossKind::kNegativeSum) loss.reduction = Reduction::kSum;
  if (!config.IsMap()) return loss;
  if (config.Has("reduction")) {
    const auto reduction = config.At("reduction").OneOf("reduction", {"mean", "sum"});
    loss.reduction = reduction == "mean" ? Reduction::kMean : Reduction::kSum;
  }
  loss.weight = static_cast<float>(config.Number("weight", 1, 1e-6, 1e6));
  return loss;
}

Task TaskOf(const LossSpec& loss, int64_t outputs, std::string_view layer) {
  const auto fail = [&](std::string_view needs) {
    throw std::invalid_argument(loss.where + ": loss " + std::string(Name(loss.kind)) + " needs " +
                                std::string(needs) + "; the last layer, " + std::string(layer) + ", has " +
                                std::to_string(outputs));
  };
  switch (loss.kind) {
    case LossKind::kSoftmaxCrossEntropy:
      if (outputs < 2) fail("one unit for each class, 2 or more");
      return outputs == 2 ? Task::kBinary : Task::kClasses;
    case LossKind::kSigmoidCrossEntropy:
      if (outputs != 1) fail("1 unit");
      return Task::kBinary;
    case LossKind::kSquaredError:
      if (outputs != 1) fail("1 unit");
      return Task::kRegression;
    case LossKind::kNegativeSum:
      return Task::kNone;
  }
  return Task::kNone;
}

LossValues AddLoss(Graph& graph, const LossSpec& loss, Value outputs, Value labels, Value weights) {
  const Graph::Scope scope(graph, "loss", loss.where);
  Value rows, scores = outputs;
  switch (loss.kind) {
    case LossKind::kSoftmaxCrossEntropy:
      rows = graph.Make<ops::SoftmaxCrossEntropy>({outputs, labels});
      scores = Value{rows.node, 1};
      break;
    case LossKind::kSigmoidCrossEntropy: {
      const Value logits = AsColumn(graph, outputs);
      rows = graph.Make<ops::SigmoidCrossEntropy>({logits, labels});
      scores = graph.Make<ops::Sigmoid>({logits});
      break;
    }
    case LossKind::kSquaredError:
      scores = AsColumn(graph, outputs);
      rows = graph.Make<ops::SquaredError>({scores, labels});
      break;
    case LossKind::kNegativeSum:
      rows = graph.Make<ops::Neg>({graph.Make<ops::ReduceSum>({outputs}, std::vector<int>{1})});
      break;
  }
  const Value weighted = graph.Make<ops::Mul>({rows, RowFactors(graph, loss, weights)});
  return {graph.Make<ops::ReduceSum>({weighted}), scores};
}

}  // namespace leat::nn
