// Test cases of the ops of this family.
#pragma once

#include "compute/ops/ops.h"
#include "compute/ops/testing.h"

namespace leat::ops::cases {

inline void AddNormalizeCases(OpCaseList& cases) {
  const SampleInput row = F32({5}), channel = F32({3}), random_seed = Integers(DType::kI64, {}, 0, 1e6f);
  // Some rows of each seed are padding.
  const SampleInput weights = Integers(DType::kF32, {6}, 0, 2), ones = Integers(DType::kF32, {4}, 1, 1),
                    padding = Integers(DType::kF32, {4}, 0, 0);
  const SampleInput variance = F32({3}, 0.5f, 2);
  const SampleInput columns = Integers(DType::kI32, {2}, 0, 2), words = F32({3, 2, 2}, 0.5f, 2);
  cases.insert(cases.end(),
               {
                   Case<LayerNorm>("layer_norm", {F32({4, 5}), row, row}, 0.1f),
                   Case<LayerNorm>("layer_norm 3-d", {F32({2, 3, 5}), row, row}, 0.1f),
                   Case<LayerNorm>("layer_norm vector", {F32({5}), row, row}, 0.5f),
                   Case<LayerNorm>("layer_norm of one", {F32({4, 1}), F32({1}), F32({1})}, 0.5f),
                   Case<LayerNorm>("layer_norm wide", {F32({3, 37}), F32({37}), F32({37})}, 0.1f),
                   Case<LayerNormGrad>("layer_norm_grad",
                                       {F32({4, 5}), row, F32({4}), F32({4}, 0.5f, 1.5f), F32({4, 5})}),
                   Case<LayerNormGrad>("layer_norm_grad 3-d", {F32({2, 3, 5}), row, F32({2, 3}),
                                                               F32({2, 3}, 0.5f, 1.5f), F32({2, 3, 5})}),
                   Case<LayerNormGrad>("layer_norm_grad wide", {F32({3, 37}), F32({37}), F32({3}),
                                                                F32({3}, 0.5f, 1.5f), F32({3, 37})}),
                   Case<BatchNorm>("batch_norm", {F32({6, 3}), channel, channel, weights}, 0.5f),
                   Case<BatchNorm>("batch_norm image", {F32({4, 2, 3, 3}), channel, channel, ones}, 0.5f),
                   Case<BatchNorm>("batch_norm padding", {F32({4, 3}), channel, channel, padding}, 0.5f),
                   Case<BatchNorm>("batch_norm wide", {F32({6, 2, 21}), F32({21}), F32({21}), weights}, 0.5f),
                   Case<BatchNormGrad>("batch_norm_grad",
                                       {F32({6, 3}), channel, weights, channel, variance, F32({6, 3})}, 0.5f),
                   Case<BatchNormGrad>(
                       "batch_norm_grad image",
                       {F32({6, 2, 2, 3}), channel, weights, channel, variance, F32({6, 2, 2, 3})}, 0.5f),
                   Case<BatchNormGrad>("batch_norm_grad padding",
                                       {F32({4, 3}), channel, padding, channel, variance, F32({4, 3})}, 0.5f),
                   Case<Dropout>("dropout", {F32({4, 9}), random_seed}, 0.4f, uint64_t{1}),
                   Case<Dropout>("dropout most", {F32({101}), random_seed}, 0.9f, uint64_t{2}),
                   Case<Dropout>("dropout nothing", {F32({5}), random_seed}, 0.0f, uint64_t{3}),
                   Derivatives(0, Case<Moments>("moments", {F32({6, 3}), weights, columns})),
                   Derivatives(0, Case<Moments>("moments image", {F32({6, 2, 3}), weights, columns})),
                   Derivatives(0, Case<MomentsScaling>("moments_scaling", {words, words, columns}, Shape{3})),
               });
}

}  // namespace leat::ops::cases
