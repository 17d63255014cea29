#include "ops/list.h"

#include "base/rng.h"
#include "ops/ops.h"

namespace leat::ops {
namespace {

using Draw = SampleInput::Draw;

SampleInput F32(Shape shape, float low = -2, float high = 2) {
  return {{DType::kF32, shape}, low, high, Draw::kUniform};
}
SampleInput AwayFromZero(Shape shape) {
  return {{DType::kF32, shape}, -2, 2, Draw::kAwayFromZero};
}
SampleInput Integers(DType type, Shape shape, float low, float high) {
  return {{type, shape}, low, high, Draw::kInteger};
}

template <class O, class... Args>
OpCase Case(std::string name, std::vector<SampleInput> inputs, Args&&... args) {
  return {std::move(name), std::make_shared<O>(std::forward<Args>(args)...), std::move(inputs), 2};
}

OpCase Derivatives(int count, OpCase c) {
  c.derivatives = count;
  return c;
}

// Leaves and sums, element by element.
void AddElementwise(std::vector<OpCase>& cases) {
  const Shape s{3, 5};
  const Tensor values = Tensor::Of<float>({3}, std::vector<float>{1.5f, -2, 0.25f});
  cases.insert(cases.end(), {
                                Derivatives(0, Case<Constant>("constant", {}, values)),
                                Case<AddN>("add_n", {F32(s), F32(s), F32(s)}),
                                Case<AddN>("add_n of one", {F32(s)}),
                                Case<Add>("add", {F32(s), F32(s)}),
                                Case<Add>("add broadcast", {F32({3, 1}), F32({2, 1, 5})}),
                                Case<Sub>("sub", {F32(s), F32(s)}),
                                Case<Sub>("sub broadcast", {F32({5}), F32(s)}),
                                Case<Mul>("mul", {F32(s), F32(s)}),
                                Case<Mul>("mul broadcast", {F32(s), F32({3, 1})}),
                                Case<Mul>("mul scalar", {F32({}), F32(s)}),
                                Case<Div>("div", {F32(s), F32(s, 0.5f, 2)}),
                                Case<Div>("div broadcast", {F32(s), F32({1, 5}, -2, -0.5f)}),
                                Case<Neg>("neg", {F32(s)}),
                                Case<Exp>("exp", {F32(s)}),
                                Case<Log>("log", {F32(s, 0.5f, 3)}),
                                Case<Square>("square", {F32(s)}),
                                Case<Sqrt>("sqrt", {F32(s, 0.5f, 3)}),
                                Case<Abs>("abs", {AwayFromZero(s)}),
                                Case<Sign>("sign", {AwayFromZero(s)}),
                                Case<Relu>("relu", {AwayFromZero(s)}),
                                Case<ReluGrad>("relu_grad", {AwayFromZero(s), F32(s)}),
                                Case<Sigmoid>("sigmoid", {F32(s)}),
                                Case<Sigmoid>("sigmoid far out", {F32(s, -30, 30)}),
                                Case<SigmoidGrad>("sigmoid_grad", {F32(s, 0, 1), F32(s)}),
                                Case<Tanh>("tanh", {F32(s)}),
                                Case<TanhGrad>("tanh_grad", {F32(s, -1, 1), F32(s)}),
                                Case<Scale>("scale", {F32(s)}, -1.5f),
                                Case<Scale>("scale and offset", {F32(s)}, 2.0f, 0.75f),
                                Derivatives(0, Case<Cast>("cast u8", {Integers(DType::kU8, s, 0, 255)})),
                                Derivatives(0, Case<Cast>("cast i32", {Integers(DType::kI32, s, -100, 100)})),
                                Derivatives(0, Case<Cast>("cast i64", {Integers(DType::kI64, s, -100, 100)})),
                            });
}

void AddShapes(std::vector<OpCase>& cases) {
  using Axes = std::vector<int>;
  using Sizes = std::vector<int64_t>;
  const Shape s{2, 3, 4};
  cases.insert(cases.end(), {
                                Case<BroadcastTo>("broadcast_to", {F32({3, 1})}, Shape{2, 3, 4}),
                                Case<SumTo>("sum_to", {F32(s)}, Shape{3, 1}),
                                Case<SumTo>("sum_to rows", {F32({6, 5})}, Shape{5}),
                                Case<SumTo>("sum_to scalar", {F32(s)}, Shape{}),
                                Case<ReduceSum>("reduce_sum all", {F32(s)}),
                                Case<ReduceSum>("reduce_sum inner", {F32(s)}, Axes{-1}),
                                Case<ReduceSum>("reduce_sum outer kept", {F32(s)}, Axes{0, 1}, true),
                                Case<ReduceMean>("reduce_mean all", {F32(s)}),
                                Case<ReduceMean>("reduce_mean middle", {F32(s)}, Axes{1}),
                                Case<Reshape>("reshape", {F32(s)}, Shape{4, 6}),
                                Case<Transpose>("transpose", {F32({3, 5})}),
                                Case<Transpose>("transpose 3-d", {F32(s)}, Axes{2, 0, 1}),
                                Case<Concat>("concat", {F32({2, 3}), F32({2, 1}), F32({2, 2})}, -1),
                                Case<Concat>("concat outer", {F32({1, 3}), F32({2, 3})}, 0),
                                Case<Slice>("slice", {F32(s)}, Sizes{1, 0, 1}, Sizes{1, 3, 2}),
                                Case<Pad>("pad", {F32({2, 3})}, Sizes{1, 0}, Sizes{0, 2}),
                            });
}

void AddMatrices(std::vector<OpCase>& cases) {
  const SampleInput bias = F32({3});
  cases.insert(
      cases.end(),
      {
          Case<MatMul>("matmul a b", {F32({4, 5}), F32({5, 3})}),
          Case<MatMul>("matmul aᵀ b", {F32({5, 4}), F32({5, 3})}, true, false),
          Case<MatMul>("matmul a bᵀ", {F32({4, 5}), F32({3, 5})}, false, true),
          Case<MatMul>("matmul aᵀ bᵀ", {F32({5, 4}), F32({3, 5})}, true, true),
          Case<BiasAdd>("bias_add", {F32({4, 3}), bias}),
          Case<BiasAdd>("bias_add 3-d", {F32({2, 4, 3}), bias}),
          Case<Dense>("dense", {F32({4, 5}), F32({5, 3}), bias}, false, false, Activation::kNone),
          Case<Dense>("dense sigmoid aᵀ", {F32({5, 4}), F32({5, 3}), bias}, true, false,
                      Activation::kSigmoid),
          Case<Dense>("dense tanh bᵀ", {F32({4, 5}), F32({3, 5}), bias}, false, true, Activation::kTanh),
          // Inputs of one sign and a bias that outweighs them keep every sum away from the kink at 0.
          Case<Dense>("dense relu", {F32({4, 5}, 0.1f, 1), F32({5, 3}, 0.1f, 1), F32({3}, 0.5f, 1)}, false,
                      false, Activation::kRelu),
          Case<Dense>("dense relu off", {F32({4, 5}, 0.1f, 1), F32({5, 3}, -1, -0.1f), F32({3}, -1, -0.5f)},
                      false, false, Activation::kRelu),
      });
}

void AddLosses(std::vector<OpCase>& cases) {
  const Shape s{4, 5};
  const SampleInput labels = Integers(DType::kF32, {4}, 0, 4);
  const SampleInput bad_labels = Integers(DType::kF32, {4}, -3, 8);
  cases.insert(
      cases.end(),
      {
          Case<Softmax>("softmax", {F32(s)}),
          Case<SoftmaxGrad>("softmax_grad", {F32(s, 0, 1), F32(s)}),
          Case<LogSoftmax>("log_softmax", {F32(s)}),
          Case<SoftmaxCrossEntropy>("softmax_cross_entropy", {F32(s), labels}),
          Case<SoftmaxCrossEntropy>("softmax_cross_entropy bad labels", {F32(s), bad_labels}),
          Case<SoftmaxCrossEntropyGrad>("softmax_cross_entropy_grad", {F32(s, 0, 1), labels, F32({4})}),
          Case<SoftmaxCrossEntropyGrad>("softmax_cross_entropy_grad bad labels",
                                        {F32(s, 0, 1), bad_labels, F32({4})}),
          Case<SigmoidCrossEntropy>("sigmoid_cross_entropy", {AwayFromZero(s), F32(s, 0, 1)}),
          Case<SigmoidCrossEntropy>("sigmoid_cross_entropy far out", {F32(s, 20, 40), F32(s, 0, 1)}),
          Case<SquaredError>("squared_error", {F32(s), F32(s)}),
      });
}

}  // namespace

const std::vector<OpCase>& OpCases() {
  static const std::vector<OpCase> cases = [] {
    std::vector<OpCase> all;
    AddElementwise(all);
    AddShapes(all);
    AddMatrices(all);
    AddLosses(all);
    return all;
  }();
  return cases;
}

namespace {

template <class T>
void DrawInto(std::span<T> elements, const SampleInput& input, Rng& rng) {
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
  }
  return tensor;
}

}  // namespace leat::ops
