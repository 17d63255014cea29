// Helpers for tests of ops: types, refusals, test cases and random inputs.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "compute/ops/op.h"
#include "compute/tensor/dtype.h"

namespace leat::ops {

inline TensorType F32(Shape shape) {
  return {DType::kF32, shape};
}

// The message with which the op rejects these input types, or "accepted".
inline std::string Refusal(const Op& op, std::vector<TensorType> inputs) {
  try {
    op.Infer(inputs);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "accepted";
}

// How to draw an input so that the op is differentiable around it.
struct SampleInput {
  enum class Draw {
    kUniform,       // in [low, high]
    kAwayFromZero,  // in [low, high], at least 0.1 away from 0, for ops with a kink there
    kInteger,       // whole numbers in [low, high]; not differentiated
    kSpread,        // evenly spaced over [low, high] in random order, so that no two are nearly equal
  };
  TensorType type;
  float low = -2;
  float high = 2;
  Draw draw = Draw::kUniform;
};

struct OpCase {
  std::string name;  // unique: "matmul aᵀ b"
  std::shared_ptr<const Op> op;
  std::vector<SampleInput> inputs;
  // How many times the op can be differentiated: 0, 1, or 2 for two or more.
  int derivatives = 2;
};

template <class T>
void DrawInto(std::span<T> elements, const SampleInput& input, Rng& rng) {
  using Draw = SampleInput::Draw;
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

// Random elements for one input of a case, determined by the seed.
inline Tensor DrawSample(const SampleInput& input, uint64_t seed) {
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

// For the lists of cases. Each family of ops has a testing.h with its own.
namespace cases {

using OpCaseList = std::vector<OpCase>;

inline SampleInput F32(Shape shape, float low = -2, float high = 2) {
  return {{DType::kF32, shape}, low, high, SampleInput::Draw::kUniform};
}
inline SampleInput AwayFromZero(Shape shape) {
  return {{DType::kF32, shape}, -2, 2, SampleInput::Draw::kAwayFromZero};
}
inline SampleInput Spread(Shape shape, float low, float high) {
  return {{DType::kF32, shape}, low, high, SampleInput::Draw::kSpread};
}
inline SampleInput Integers(DType type, Shape shape, float low, float high) {
  return {{type, shape}, low, high, SampleInput::Draw::kInteger};
}

template <class O, class... Args>
OpCase Case(std::string name, std::vector<SampleInput> inputs, Args&&... args) {
  return {std::move(name), std::make_shared<O>(std::forward<Args>(args)...), std::move(inputs), 2};
}

inline OpCase Derivatives(int count, OpCase c) {
  c.derivatives = count;
  return c;
}

}  // namespace cases

}  // namespace leat::ops
