#include "compute/ops/list.h"

#include <algorithm>

#include "base/rng.h"
#include "compute/ops/cases.h"
#include "compute/tensor/convert.h"

namespace leat::ops {
const std::vector<OpCase>& OpCases() {
  static const std::vector<OpCase> cases = [] {
    std::vector<OpCase> all;
    AddArithmeticCases(all);
    AddActivationCases(all);
    AddLogicCases(all);
    AddReductionCases(all);
    AddShapeCases(all);
    AddIndexCases(all);
    AddMatrixCases(all);
    AddLossCases(all);
    AddConvolutionCases(all);
    AddNormalizeCases(all);
    AddSequenceCases(all);
    return all;
  }();
  return cases;
}

namespace {

using Draw = SampleInput::Draw;

template <class T>
void DrawInto(std::span<T> elements, const SampleInput& input, Rng& rng) {
  if (input.draw == Draw::kSpread) {
    const float step = (input.high - input.low) / static_cast<float>(elements.size());
    for (size_t i = 0; i < elements.size(); ++i) {
      elements[i] = static_cast<T>(input.low + (static_cast<float>(i) + 0.5f) * step);
      std::swap(elements[i], elements[rng.Below(i + 1)]);
    }
    return;
  }
  for (T& element : elements) {
    const double low = input.low, high = input.high;
    switch (input.draw) {
      case Draw::kUniform:
        element = static_cast<T>(low + (high - low) * rng.Uniform());
        break;
      case Draw::kInteger:
        element =
            static_cast<T>(input.low + static_cast<float>(rng.Below(static_cast<uint64_t>(high - low) + 1)));
        break;
      case Draw::kAwayFromZero: {
        double x = 0;
        while (x > -0.1 && x < 0.1) x = low + (high - low) * rng.Uniform();
        element = static_cast<T>(x);
        break;
      }
      case Draw::kSpread:
        break;
    }
  }
}

}  // namespace

Tensor DrawSample(const SampleInput& input, uint64_t seed) {
  Rng rng(seed);
  Tensor tensor(input.type);
  switch (input.type.dtype) {
    case DType::kF32:
      DrawInto(tensor.as<float>(), input, rng);
      break;
    case DType::kI32:
      DrawInto(tensor.as<int32_t>(), input, rng);
      break;
    case DType::kI64:
      DrawInto(tensor.as<int64_t>(), input, rng);
      break;
    case DType::kU8:
      DrawInto(tensor.as<uint8_t>(), input, rng);
      break;
    case DType::kBf16: {
      std::vector<float> exact(tensor.elements());
      DrawInto(std::span(exact), input, rng);
      std::ranges::transform(exact, tensor.as<Bf16>().begin(), ToBf16);
      break;
    }
  }
  return tensor;
}

}  // namespace leat::ops
