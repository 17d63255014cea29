// What a network is trained to make small, and what its outputs mean.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/config.h"
#include "graph/graph.h"

namespace leat::nn {

enum class LossKind : uint8_t {
  kSoftmaxCrossEntropy,
  kSigmoidCrossEntropy,
  kSquaredError,
  kAbsoluteError,
  kHuber,
  kNegativeSum
};
std::string_view Name(LossKind kind);

enum class Reduction : uint8_t { kMean, kSum };

struct LossSpec {
  LossKind kind = LossKind::kSoftmaxCrossEntropy;
  Reduction reduction = Reduction::kMean;
  float weight = 1;   // factor on the whole
  float delta = 1;    // huber: the error from which on it grows in a straight line
  std::string where;  // "job.yaml:14"

  // A name, or a map {type, reduction: mean | sum, weight}, for huber with delta. negative_sum is summed
  // unless it says otherwise, the others are averaged.
  static LossSpec FromConfig(const Config& config);
};

// What a row's scores say.
enum class Task : uint8_t {
  kBinary,      // of two classes: whether AUC has a meaning
  kClasses,     // of three and more classes
  kRegression,  // a number
  kNone,        // nothing that could be held against a label
};

// What the loss makes of a network whose last layer, named `layer`, makes `outputs` of a row that has
// `labels` labels: softmax takes as many classes as the last axis has for each label, the others a number for
// each. Throws std::invalid_argument when they do not fit.
Task TaskOf(const LossSpec& loss, const Shape& outputs, uint32_t labels, std::string_view layer);

struct LossValues {
  graph::Value loss;  // f32 scalar
  // For each label of each row. softmax: probabilities f32[batch · labels, classes]; sigmoid: f32[batch ·
  // labels], probability of class 1; squared_error, absolute_error, huber: f32[batch · labels], the
  // prediction; negative_sum: the outputs.
  graph::Value scores;
};

// Adds the loss of `outputs` f32[batch, ...] against `labels` f32[batch] or f32[batch, labels] to the graph.
// l being a row's loss, the mean over its labels where it has several,
//   mean: L = weight Σ w l / Σ w (0 when all w are 0), sum: L = weight Σ w l, over the rows of a batch.
//   softmax_cross_entropy: l = -log softmax(outputs)[y]; a y that is no class adds 0
//   sigmoid_cross_entropy: l = -y log σ(o) - (1 - y) log(1 - σ(o))
//   squared_error: l = (o - y)²
//   absolute_error: l = |o - y|
//   huber: l = ½ (o - y)² where |o - y| <= delta, else delta (|o - y| - ½ delta)
//   negative_sum: l = -Σ outputs, so the gradient by each output is -w
LossValues AddLoss(graph::Graph& graph, const LossSpec& loss, graph::Value outputs, graph::Value labels,
                   graph::Value weights);

}  // namespace leat::nn
