// Convolutions and pools of random sizes against the reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/rng.h"
#include "compute/kernels/cpu/table.h"
#include "compute/kernels/reference/reference.h"
#include "compute/ops/ops.h"
#include "compute/ops/testing.h"

namespace leat::cpu {
namespace {

using Tensors = std::vector<Tensor>;

std::vector<TensorType> TypesOfAll(const Tensors& tensors) {
  std::vector<TensorType> types;
  for (const auto& t : tensors) types.push_back(t.type());
  return types;
}

// The outputs of the table's kernel; empty if it has none for this case.
Tensors RunConvolution(const graph::KernelTable& table, const graph::Op& op, const Tensors& inputs) {
  const auto types = TypesOfAll(inputs), out_types = op.Infer(types);
  const auto kernel = table.factories.at(op.kind())({op, types, out_types, 1});
  if (!kernel) return {};
  Tensors outputs;
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  for (const auto& t : inputs) in.push_back(t.raw());
  for (const auto& t : out_types) {
    outputs.emplace_back(t);
    out.push_back(outputs.back().raw());
  }
  for (const auto& t : outputs) std::memset(t.raw(), 0x7f, t.bytes());
  const Buffer scratch(kernel->scratch_bytes());
  kernel->Run({in, out, scratch.data()});
  return outputs;
}

std::vector<float> Numbers(const Tensor& tensor) {
  std::vector<float> all;
  if (tensor.dtype() == DType::kU8)
    for (uint8_t x : tensor.as<uint8_t>()) all.push_back(x);
  if (tensor.dtype() == DType::kI32)
    for (int32_t x : tensor.as<int32_t>()) all.push_back(static_cast<float>(x));
  if (tensor.dtype() == DType::kF32)
    for (float x : tensor.as<float>()) all.push_back(x);
  return all;
}

// The order of summation affects the result, so the tolerance is relative to the largest element.
void ExpectSameConvolution(const graph::Op& op, const Tensors& inputs, double tolerance) {
  const Tensors actual = RunConvolution(Table(), op, inputs),
                expected = RunConvolution(reference::Kernels(), op, inputs);
  std::string what(op.kind());
  for (const auto& t : inputs) what += " " + t.type().ToString();
  what += " " + op.attributes();
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t o = 0; o < actual.size(); ++o) {
    const auto a = Numbers(actual[o]), e = Numbers(expected[o]);
    double largest = 1;
    for (const float x : e)
      largest = std::isfinite(x) ? std::max(largest, std::abs(static_cast<double>(x))) : largest;
    for (size_t i = 0; i < a.size(); ++i) {
      const bool same =
          a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i])) ||
          std::abs(static_cast<double>(a[i]) - static_cast<double>(e[i])) <= tolerance * largest;
      ASSERT_TRUE(same) << what << " output " << o << " [" << i << "] is " << a[i] << ", the reference has "
                        << e[i];
    }
  }
}

Tensor DrawNormal(Shape shape, uint64_t seed) {
  return ops::DrawSample({{DType::kF32, shape}, -1, 1, ops::SampleInput::Draw::kUniform}, seed);
}

int64_t From(Rng& rng, int64_t least, int64_t most) {
  return least + static_cast<int64_t>(rng.Below(static_cast<uint64_t>(most - least + 1)));
}

TEST(OnednnConvolutionTest, RandomConvolutions) {
  constexpr ops::Activation kActivations[] = {ops::Activation::kNone, ops::Activation::kRelu,
                                              ops::Activation::kSigmoid, ops::Activation::kTanh};
  Rng rng(1);
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const int64_t groups = rng.Chance(0.7) ? 1 : From(rng, 2, 4);
    // Sometimes depthwise; numbers of channels around the vector width.
    const int64_t in = rng.Chance(0.3) ? 1 : From(rng, 1, 20), out = rng.Chance(0.3) ? 1 : From(rng, 1, 20);
    const ops::Pair kernel{From(rng, 1, 4), From(rng, 1, 4)};
    const ops::Conv2dAttributes attr{
        .strides = {From(rng, 1, 3), From(rng, 1, 3)},
        .padding = {From(rng, 0, 2), From(rng, 0, 2), From(rng, 0, 2), From(rng, 0, 2)},
        .dilations = {rng.Chance(0.8) ? 1 : 2, rng.Chance(0.8) ? 1 : 2},
        .groups = groups};
    const Tensor x = DrawNormal({From(rng, 1, 3), From(rng, 7, 12), From(rng, 7, 12), in * groups}, seed);
    const Tensor w = DrawNormal({out * groups, in, kernel.height, kernel.width}, seed + 1000);
    const auto sizes = ops::Conv2dSizesOf(attr, x.shape(), w.shape());
    const Tensor y = DrawNormal(sizes.y, seed + 2000), bias = DrawNormal({sizes.filters}, seed + 3000);
    const ops::Padding& p = attr.padding;
    const ops::Pair extent = sizes.window.Extent();
    if (std::max(p.top, p.bottom) >= extent.height || std::max(p.left, p.right) >= extent.width) {
      EXPECT_TRUE(RunConvolution(Table(), ops::Conv2d(attr), {x, w}).empty());
      continue;
    }
    ExpectSameConvolution(ops::Conv2d(attr), {x, w}, 1e-5);
    ExpectSameConvolution(ops::Conv2dBias(attr, kActivations[seed % 4]), {x, w, bias}, 1e-5);
    ExpectSameConvolution(ops::Conv2dGradInput(attr, sizes.input), {y, w}, 1e-5);
    ExpectSameConvolution(ops::Conv2dGradWeights(attr, kernel), {x, y}, 1e-5);
    ExpectSameConvolution(ops::Conv2dGradWeightsBias(attr, kernel), {x, y}, 1e-5);
  }
}

TEST(OnednnConvolutionTest, LeavesWhatHasNoElementsToTheReference) {
  EXPECT_TRUE(
      RunConvolution(Table(), ops::Conv2d(), {DrawNormal({0, 3, 3, 1}, 1), DrawNormal({2, 1, 2, 2}, 2)})
          .empty());
  EXPECT_TRUE(RunConvolution(Table(), ops::Conv2dGradWeights({}, {2, 2}),
                             {DrawNormal({0, 3, 3, 1}, 1), DrawNormal({0, 2, 2, 1}, 2)})
                  .empty());
}

// Includes NaN and equal elements.
Tensor DrawRough(Shape shape, Rng& rng) {
  Tensor t(DType::kF32, shape);
  for (float& x : t.as<float>()) {
    x = static_cast<float>(From(rng, -3, 3));
    if (rng.Chance(0.05)) x = std::nanf("");
    if (rng.Chance(0.05)) x = -std::numeric_limits<float>::infinity();
  }
  return t;
}

TEST(OnednnPoolTest, RandomPools) {
  Rng rng(2);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    ops::PoolAttributes attr{.kernel = {From(rng, 1, 4), From(rng, 1, 4)},
                             .strides = {From(rng, 1, 4), From(rng, 1, 4)},
                             .padding = {}};
    if (rng.Chance(0.3)) attr.strides = attr.kernel;
    if (rng.Chance(0.5)) {
      attr.padding = {From(rng, 0, attr.kernel.height - 1), From(rng, 0, attr.kernel.width - 1),
                      From(rng, 0, attr.kernel.height - 1), From(rng, 0, attr.kernel.width - 1)};
    }
    const Shape x{From(rng, 0, 2), From(rng, 4, 9), From(rng, 4, 9), From(rng, 0, 70)};
    const Shape y = ops::PooledShape(attr, x);
    ExpectSameConvolution(ops::MaxPool(attr), {DrawRough(x, rng)}, 0);
    // No index, however wrong, may cause a write outside the image.
    Tensor index(DType::kU8, y);
    for (uint8_t& i : index.as<uint8_t>()) i = static_cast<uint8_t>(rng.Below(rng.Chance(0.1) ? 256 : 16));
    ExpectSameConvolution(ops::MaxPoolGrad(attr, ops::ImageSize(x)), {DrawNormal(y, seed), index}, 1e-6);
    const bool include_pad = rng.Chance(0.5);
    ExpectSameConvolution(ops::AvgPool(attr, include_pad), {DrawNormal(x, seed)}, 1e-6);
    ExpectSameConvolution(ops::AvgPoolGrad(attr, include_pad, ops::ImageSize(x)), {DrawNormal(y, seed)},
                          1e-6);
  }
}

TEST(OnednnPoolTest, IndicesOfLargeWindows) {
  const ops::PoolAttributes attr{.kernel = {17, 16}, .strides = {3, 3}, .padding = {2, 1, 0, 0}};
  Rng rng(3);
  const Shape x{2, 20, 20, 5}, y = ops::PooledShape(attr, x);
  ExpectSameConvolution(ops::MaxPool(attr), {DrawRough(x, rng)}, 0);
  Tensor index(DType::kI32, y);
  for (int32_t& i : index.as<int32_t>())
    i = static_cast<int32_t>(rng.Chance(0.1) ? rng.Below(UINT32_MAX) : rng.Below(300));
  ExpectSameConvolution(ops::MaxPoolGrad(attr, ops::ImageSize(x)), {DrawNormal(y, 1), index}, 1e-6);
}

}  // namespace
}  // namespace leat::cpu
