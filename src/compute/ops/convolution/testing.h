// Test cases of the ops of this family.
#pragma once

#include "compute/ops/ops.h"
#include "compute/ops/testing.h"

namespace leat::ops::cases {
inline void AddConvolutions(OpCaseList& cases) {
  const Conv2dAttributes plain, padded{.padding = {1, 0, 2, 1}},
      strided{.strides = {2, 3}, .padding = {1, 1, 0, 1}},
      dilated{.padding = {1, 1, 1, 1}, .dilations = {2, 3}},
      grouped{.strides = {1, 2}, .padding = {1, 1, 1, 1}, .groups = 2},
      depthwise{.padding = {1, 1, 1, 1}, .groups = 3}, far{.padding = {4, 0, 0, 5}};
  struct Instance {
    std::string name;
    Conv2dAttributes attr;
    Shape x, w, y;
  };
  const Instance all[] = {
      {"", plain, {2, 4, 5, 2}, {3, 2, 3, 2}, {2, 2, 4, 3}},
      {" 1x1", plain, {2, 2, 3, 3}, {4, 3, 1, 1}, {2, 2, 3, 4}},
      {" of the whole image", plain, {2, 3, 3, 1}, {2, 1, 3, 3}, {2, 1, 1, 2}},
      {" of a row", padded, {1, 1, 7, 2}, {2, 2, 1, 3}, {1, 4, 6, 2}},
      {" padded", padded, {1, 3, 4, 1}, {2, 1, 3, 2}, {1, 4, 4, 2}},
      {" strided", strided, {1, 6, 7, 2}, {2, 2, 3, 2}, {1, 3, 3, 2}},
      {" dilated", dilated, {1, 5, 6, 1}, {2, 1, 3, 2}, {1, 3, 5, 2}},
      {" grouped", grouped, {1, 3, 4, 4}, {4, 2, 3, 3}, {1, 3, 2, 4}},
      {" depthwise", depthwise, {1, 3, 3, 3}, {6, 1, 3, 3}, {1, 3, 3, 6}},
      {" with windows beside the image", far, {1, 3, 3, 1}, {1, 1, 2, 2}, {1, 6, 7, 1}},
  };
  for (const auto& [name, attr, x, w, y] : all) {
    const Pair input = ImageSize(x), kernel{w[2], w[3]};
    cases.push_back(Case<Conv2d>("conv2d" + name, {F32(x), F32(w)}, attr));
    cases.push_back(Case<Conv2dGradInput>("conv2d_grad_input" + name, {F32(y), F32(w)}, attr, input));
    cases.push_back(Case<Conv2dGradWeights>("conv2d_grad_weights" + name, {F32(x), F32(y)}, attr, kernel));
    cases.push_back(
        Case<Conv2dGradWeightsBias>("conv2d_grad_weights_bias" + name, {F32(x), F32(y)}, attr, kernel));
    const SampleInput bias = F32({w[0]});
    cases.push_back(Case<Conv2dBias>("conv2d_bias" + name, {F32(x), F32(w), bias}, attr));
    cases.push_back(Case<Conv2dBias>("conv2d_bias tanh" + name,
                                     {F32(x, -0.3f, 0.3f), F32(w, -0.3f, 0.3f), bias}, attr,
                                     Activation::kTanh));
  }
  const auto bf16 = [](Shape shape) {
    return SampleInput{{DType::kBf16, shape}, -2, 2, SampleInput::Draw::kUniform};
  };
  const Shape images{2, 5, 6, 16}, filters{32, 16, 3, 3}, made{2, 5, 6, 32};
  const Conv2dAttributes same{.padding = {1, 1, 1, 1}};
  const Pair size{5, 6}, window{3, 3};
  cases.push_back(Derivatives(0, Case<Conv2d>("conv2d bf16", {bf16(images), bf16(filters)}, same)));
  cases.push_back(
      Derivatives(0, Case<Conv2dBias>("conv2d_bias bf16", {bf16(images), bf16(filters), F32({32})}, same,
                                      Activation::kRelu)));
  cases.push_back(Derivatives(
      0, Case<Conv2dGradInput>("conv2d_grad_input bf16", {bf16(made), bf16(filters)}, same, size)));
  cases.push_back(Derivatives(
      0, Case<Conv2dGradWeights>("conv2d_grad_weights bf16", {bf16(images), bf16(made)}, same, window)));
  cases.push_back(Derivatives(0, Case<Conv2dGradWeightsBias>("conv2d_grad_weights_bias bf16",
                                                             {bf16(images), bf16(made)}, same, window)));
  const Shape x{1, 3, 4, 2}, w{3, 2, 2, 3};
  cases.push_back(Case<Conv2dBias>("conv2d_bias sigmoid", {F32(x), F32(w, -0.5f, 0.5f), F32({3})}, padded,
                                   Activation::kSigmoid));
  // Inputs of one sign and a bias that outweighs them keep every sum away from the kink at 0.
  cases.push_back(Case<Conv2dBias>("conv2d_bias relu", {F32(x, 0.1f, 1), F32(w, 0.1f, 1), F32({3}, 0.5f, 1)},
                                   padded, Activation::kRelu));
  cases.push_back(Case<Conv2dBias>("conv2d_bias relu off",
                                   {F32(x, 0.1f, 1), F32(w, -1, -0.1f), F32({3}, -1, -0.5f)}, padded,
                                   Activation::kRelu));
}

inline void AddPools(OpCaseList& cases) {
  struct Instance {
    std::string name;
    PoolAttributes attr;
    Shape x, y;
  };
  const Instance all[] = {
      {"", {.kernel = {2, 2}, .strides = {2, 2}}, {2, 4, 6, 3}, {2, 2, 3, 3}},
      {" of many channels", {.kernel = {2, 2}, .strides = {2, 2}}, {1, 4, 2, 21}, {1, 2, 1, 21}},
      {" with a rest", {.kernel = {2, 3}, .strides = {2, 3}}, {1, 5, 8, 2}, {1, 2, 2, 2}},
      {" with gaps", {.kernel = {1, 2}, .strides = {2, 3}}, {1, 5, 8, 1}, {1, 3, 3, 1}},
      {" overlapping", {.kernel = {3, 3}, .strides = {2, 1}}, {1, 5, 5, 2}, {1, 2, 3, 2}},
      {" padded", {.kernel = {3, 2}, .strides = {2, 2}, .padding = {1, 1, 2, 0}}, {1, 4, 5, 2}, {1, 3, 3, 2}},
      {" of the whole image", {.kernel = {3, 4}}, {2, 3, 4, 2}, {2, 1, 1, 2}},
      {" of large windows", {.kernel = {17, 16}}, {1, 17, 16, 1}, {1, 1, 1, 1}},
  };
  for (const auto& [name, attr, x, y] : all) {
    const Pair input = ImageSize(x);
    const auto elements = static_cast<float>(attr.kernel.height * attr.kernel.width);
    // Some indices are outside the window.
    const SampleInput index = Integers(WindowIndexType(attr.kernel), y, 0, std::min(elements + 1, 255.0f));
    cases.push_back(Case<MaxPool>("max_pool" + name, {Spread(x, -20, 20)}, attr));
    cases.push_back(Case<MaxPoolGrad>("max_pool_grad" + name, {F32(y), index}, attr, input));
    cases.push_back(Case<MaxPoolGather>("max_pool_gather" + name, {F32(x), index}, attr));
    for (const bool include_pad : {false, true}) {
      const std::string all_of = include_pad ? " including padding" : "";
      cases.push_back(Case<AvgPool>("avg_pool" + name + all_of, {F32(x)}, attr, include_pad));
      cases.push_back(Case<AvgPoolGrad>("avg_pool_grad" + name + all_of, {F32(y)}, attr, include_pad, input));
    }
  }
}

inline void AddConvolutionCases(OpCaseList& cases) {
  AddConvolutions(cases);
  AddPools(cases);
}

}  // namespace leat::ops::cases
