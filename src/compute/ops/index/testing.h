// Test cases of the ops of this family.
#pragma once

#include "compute/ops/ops.h"
#include "compute/ops/testing.h"

namespace leat::ops::cases {

inline void AddIndexCases(OpCaseList& cases) {
  // Some of these indices are out of range.
  const auto i32 = [](Shape shape) { return Integers(DType::kI32, shape, -6, 6); };
  const auto i64 = [](Shape shape) { return Integers(DType::kI64, shape, -6, 6); };
  cases.insert(
      cases.end(),
      {
          Case<Gather>("gather rows", {F32({5, 3}), i32({7})}),
          Case<Gather>("gather columns", {F32({3, 5}), i64({4})}, -1),
          Case<Gather>("gather middle", {F32({2, 4, 3}), i32({2, 3})}, 1),
          Case<Gather>("gather one", {F32({4, 3}), i32({})}),
          Case<Gather>("gather elements of a list", {F32({5}), i64({2, 4})}),
          Derivatives(0, Case<Gather>("gather i64", {Integers(DType::kI64, {5}, 0, 9), i64({3})})),
          Derivatives(0, Case<Gather>("gather u8", {Integers(DType::kU8, {5, 3}, 0, 9), i32({3})})),
          Case<ScatterAdd>("scatter_add rows", {F32({7, 3}), i32({7})}, Shape{5, 3}, 0),
          Case<ScatterAdd>("scatter_add middle", {F32({2, 2, 3, 3}), i64({2, 3})}, Shape{2, 4, 3}, 1),
          Case<GatherElements>("gather_elements", {F32({4, 3}), i64({2, 3})}, 0),
          Case<GatherElements>("gather_elements inner", {F32({4, 3}), i32({4, 7})}, -1),
          Case<GatherElements>("gather_elements middle", {F32({2, 4, 3}), i32({2, 5, 2})}, 1),
          Derivatives(0, Case<GatherElements>("gather_elements i32",
                                              {Integers(DType::kI32, {5}, 0, 9), i64({3})}, 0)),
          Case<ScatterElementsAdd>("scatter_elements_add", {F32({2, 3}), i64({2, 3})}, Shape{4, 3}, 0),
          Case<ScatterElementsAdd>("scatter_elements_add inner", {F32({4, 7}), i32({4, 7})}, Shape{4, 3}, 1),
          Case<Embedding>("embedding", {F32({5, 3}), i32({7})}),
          Case<Embedding>("embedding of sequences", {F32({5, 20}), i32({2, 3})}),
          Case<Embedding>("embedding of one id", {F32({5, 3}), i32({})}),
          Case<Embedding>("embedding without rows", {F32({0, 3}), i32({2})}),
          Case<EmbeddingGrad>("embedding_grad", {i32({2, 9}), F32({2, 9, 3})}, 5),
          Case<EmbeddingGrad>("embedding_grad wide", {i32({9}), F32({9, 35})}, 3),
          Derivatives(0, Case<OneHot>("one_hot", {i32({7})}, 5)),
          Derivatives(0, Case<OneHot>("one_hot of a matrix", {i64({3, 4})}, 4)),
      });
}

}  // namespace leat::ops::cases
