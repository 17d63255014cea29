#include "compute/nn/loss.h"

#include <stdexcept>
#include <vector>

#include "base/fields/word.h"
#include "compute/ops/ops.h"

namespace leat::nn {
namespace {

using graph::Graph;
using graph::Value;

// Factors of the rows' losses: w / Σ w for a mean, w for a sum.
Value RowFactors(Graph& graph, const LossSpec& loss, Value weights) {
  // If all rows are padding, all factors are 0.
  const Value factors = loss.reduction == Reduction::kMean ? graph.Make<ops::Shares>({weights}) : weights;
  return loss.weight == 1 ? factors : graph.Make<ops::Scale>({factors}, loss.weight);
}

Value AsRows(Graph& graph, Value x, const Shape& shape) {
  return graph.shape(x) == shape ? x : graph.Make<ops::Reshape>({x}, shape);
}

}  // namespace

LossSpec LossSpec::FromConfig(const Config& config) {
  LossSpec loss;
  loss.where = config.where();
  if (config.IsMap()) config.Allow({"type", "reduction", "weight", "delta"});
  loss.kind = fields::FromWord<LossKind>(config.IsMap() ? config.At("type") : config, "loss");
  if (loss.kind == LossKind::kNegativeSum) loss.reduction = Reduction::kSum;
  if (!config.IsMap()) return loss;
  loss.reduction = fields::FromWord(config, "reduction", loss.reduction);
  loss.weight = static_cast<float>(config.Number("weight", 1, 1e-6, 1e6));
  if (loss.kind != LossKind::kHuber && config.Has("delta")) {
    config.At("delta").Fail("loss " + std::string(fields::NameOf(loss.kind)) +
                            " has no delta; only huber has one");
  }
  loss.delta = static_cast<float>(config.Number("delta", 1, 1e-6, 1e6));
  return loss;
}

Task TaskOf(const LossSpec& loss, const Shape& outputs, uint32_t labels, std::string_view layer) {
  const auto fail = [&](const std::string& needs) {
    throw std::invalid_argument(loss.where + ": loss " + std::string(fields::NameOf(loss.kind)) + " needs " +
                                needs + "; the last layer, " + std::string(layer) + ", has " +
                                (outputs.rank() == 1 ? std::to_string(outputs[0]) : outputs.ToString()));
  };
  const std::string each = labels == 1 ? "" : " for each of the " + std::to_string(labels) + " labels";
  switch (loss.kind) {
    case LossKind::kSoftmaxCrossEntropy: {
      const int64_t classes = outputs.rank() == 0 ? 1 : outputs[outputs.rank() - 1];
      if (classes < 2 || outputs.elements() != classes * labels)
        fail("one unit per class, at least 2" + (labels == 1 ? "" : "," + each));
      return classes == 2 ? Task::kBinary : Task::kClasses;
    }
    case LossKind::kSigmoidCrossEntropy:
      if (outputs.elements() != labels) fail("1 unit" + each);
      return Task::kBinary;
    case LossKind::kSquaredError:
    case LossKind::kAbsoluteError:
    case LossKind::kHuber:
      if (outputs.elements() != labels) fail("1 unit" + each);
      return Task::kRegression;
    case LossKind::kNegativeSum:
      return Task::kNone;
  }
  return Task::kNone;
}

LossValues AddLoss(Graph& graph, const LossSpec& loss, Value outputs, Value labels, Value weights) {
  const Graph::Scope scope(graph, "loss", loss.where);
  const Shape all = graph.shape(labels);
  const int64_t batch = all[0], each = all.elements() / batch;
  const Value flat_labels = AsRows(graph, labels, Shape{all.elements()});
  Value rows, scores = outputs;
  switch (loss.kind) {
    case LossKind::kSoftmaxCrossEntropy: {
      const Shape& shape = graph.shape(outputs);
      const Value logits = AsRows(graph, outputs, Shape{all.elements(), shape[shape.rank() - 1]});
      rows = graph.Make<ops::SoftmaxCrossEntropy>({logits, flat_labels});
      scores = Value{rows.node, 1};
      break;
    }
    case LossKind::kSigmoidCrossEntropy: {
      const Value logits = AsRows(graph, outputs, Shape{all.elements()});
      rows = graph.Make<ops::SigmoidCrossEntropy>({logits, flat_labels});
      scores = graph.Make<ops::Sigmoid>({logits});
      break;
    }
    case LossKind::kSquaredError:
      scores = AsRows(graph, outputs, Shape{all.elements()});
      rows = graph.Make<ops::SquaredError>({scores, flat_labels});
      break;
    case LossKind::kAbsoluteError:
      scores = AsRows(graph, outputs, Shape{all.elements()});
      rows = graph.Make<ops::AbsoluteError>({scores, flat_labels});
      break;
    case LossKind::kHuber:
      scores = AsRows(graph, outputs, Shape{all.elements()});
      rows = graph.Make<ops::Huber>({scores, flat_labels}, loss.delta);
      break;
    case LossKind::kNegativeSum: {
      const Value flat = AsRows(graph, outputs, Shape{batch, graph.shape(outputs).elements() / batch});
      rows = graph.Make<ops::Neg>({graph.Make<ops::ReduceSum>({flat}, std::vector<int>{1})});
      break;
    }
  }
  if (graph.shape(rows)[0] != batch) {
    rows = graph.Make<ops::ReduceMean>({graph.Make<ops::Reshape>({rows}, Shape{batch, each})},
                                       std::vector<int>{1});
  }
  const Value weighted = graph.Make<ops::Mul>({rows, RowFactors(graph, loss, weights)});
  return {graph.Make<ops::ReduceSum>({weighted}), scores};
}

}  // namespace leat::nn
