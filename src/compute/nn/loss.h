// Losses, and the meaning of a network's outputs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/config/config.h"
#include "base/fields/fields.h"
#include "compute/graph/graph.h"

namespace leat::nn {

enum class LossKind : uint8_t {
  kSoftmaxCrossEntropy,
  kSigmoidCrossEntropy,
  kSquaredError,
  kAbsoluteError,
  kHuber,
  kNegativeSum
};
LEAT_ENUM(LossKind, (kSoftmaxCrossEntropy, "softmax_cross_entropy"),
          (kSigmoidCrossEntropy, "sigmoid_cross_entropy"), (kSquaredError, "squared_error"),
          (kAbsoluteError, "absolute_error"), (kHuber, "huber"), (kNegativeSum, "negative_sum"));

enum class Reduction : uint8_t { kMean, kSum };
LEAT_ENUM(Reduction, (kMean, "mean"), (kSum, "sum"));

struct LossSpec {
  LossKind kind = LossKind::kSoftmaxCrossEntropy;
  Reduction reduction = Reduction::kMean;
  float weight = 1;   // factor on the loss
  float delta = 1;    // huber: the error above which the loss is linear
  std::string where;  // "job.yaml:14"

  // Reads a name, or a map {type, reduction: mean | sum, weight, delta}, with delta for huber only. The
  // default reduction is sum for negative_sum and mean for all others. Throws std::invalid_argument.
  static LossSpec FromConfig(const Config& config);
};

// The meaning of the scores.
enum class Task : uint8_t {
  kBinary,      // two classes; AUC is defined
  kClasses,     // three or more classes
  kRegression,  // a number
  kNone,        // not comparable with a label
};

// The task of a network with this loss, given the outputs of its last layer `layer` per row and the number of
// labels per row. Softmax needs one output per class and label, with classes along the last axis; other
// losses need one output per label. Throws std::invalid_argument if the outputs do not match.
Task TaskOf(const LossSpec& loss, const Shape& outputs, uint32_t labels, std::string_view layer);

struct LossValues {
  graph::Value loss;  // f32 scalar
  // For each label of each row. softmax: class probabilities f32[batch · labels, classes]; sigmoid:
  // probability of class 1, f32[batch · labels]; squared_error, absolute_error, huber: prediction, f32[batch
  // · labels]; negative_sum: the outputs.
  graph::Value scores;
};

// Whether the output of a network is that of an activation which a cross entropy includes.
// Follows from the ops of the graph alone, for any data and weights: all elements are within [-1, 1], as
// those of a softmax, a sigmoid or a tanh are, also behind arithmetic that keeps them there; or they are
// those of a relu or log-softmax, rearranged in any way.
bool EndsWithActivation(const graph::Graph& graph, graph::Value v);

// Adds the loss of `outputs` f32[batch, ...] and `labels` f32[batch] or f32[batch, labels] to the graph. With
// row weights w and row losses l (the mean over the labels of a row), the loss L of a batch is
//   mean: L = weight Σ w l / Σ w (0 if all w are 0)
//   sum: L = weight Σ w l
// where l is
//   softmax_cross_entropy: l = -log softmax(outputs)[y]; 0 if y is not a class
//   sigmoid_cross_entropy: l = -y log σ(o) - (1 - y) log(1 - σ(o))
//   squared_error: l = (o - y)²
//   absolute_error: l = |o - y|
//   huber: l = ½ (o - y)² where |o - y| <= delta, else delta (|o - y| - ½ delta)
//   negative_sum: l = -Σ outputs, so the gradient with respect to each output is -w
LossValues AddLoss(graph::Graph& graph, const LossSpec& loss, graph::Value outputs, graph::Value labels,
                   graph::Value weights);

}  // namespace leat::nn
