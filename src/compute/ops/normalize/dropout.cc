#include "compute/ops/normalize/dropout.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/rng.h"

namespace leat::ops {

std::vector<TensorType> Dropout::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  graph::CheckF32(inputs.first(1));
  if (inputs[1] != TensorType{DType::kI64, {}}) {
    throw std::invalid_argument("random_seed is " + inputs[1].ToString() + "; must be " +
                                TensorType{DType::kI64, {}}.ToString());
  }
  if (!(rate >= 0 && rate < 1)) {
    throw std::invalid_argument("rate=" + graph::ToString(rate) + "; must be at least 0 and below 1");
  }
  return {inputs[0]};
}

InputGrads Dropout::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<Dropout>({*output_grads[0], node.inputs[1]}, rate, salt), std::nullopt};
}

std::string Dropout::attributes() const {
  return "rate=" + graph::ToString(rate) + " salt=" + std::to_string(salt);
}

double Dropout::flops(Types, Types outputs) const {
  return 10.0 * static_cast<double>(outputs[0].shape.elements());
}

DropoutMask::DropoutMask(const Dropout& op, int64_t random_seed)
    : key_(Mix(static_cast<uint64_t>(random_seed), op.salt)) {
  constexpr double kOne = 1 << 24;
  // Keep at least one bit pattern, or the factor would be infinite.
  threshold_ = static_cast<int32_t>(std::min(std::round(static_cast<double>(op.rate) * kOne), kOne - 1));
  factor_ = static_cast<float>(kOne / (kOne - threshold_));
}

DropoutMask::Keys DropoutMask::KeysOf(uint64_t block) const {
  const uint64_t keys = Mix(key_ + block);
  return {static_cast<uint32_t>(keys), static_cast<uint32_t>(keys >> 32)};
}

}  // namespace leat::ops
