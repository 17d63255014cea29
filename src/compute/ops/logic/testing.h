// Test cases of the ops of this family.
#pragma once

#include "compute/ops/ops.h"
#include "compute/ops/testing.h"

namespace leat::ops::cases {

inline void AddLogicCases(OpCaseList& cases) {
  const Shape s{3, 5};
  cases.insert(
      cases.end(),
      {
          Derivatives(
              0, Case<Equal>("equal", {Integers(DType::kF32, s, 0, 3), Integers(DType::kF32, {5}, 0, 3)})),
          Derivatives(
              0, Case<Equal>("equal i64", {Integers(DType::kI64, s, 0, 3), Integers(DType::kI64, s, 0, 3)})),
          Derivatives(0, Case<NotEqual>("not_equal",
                                        {Integers(DType::kI32, s, 0, 3), Integers(DType::kI32, {}, 0, 3)})),
          Derivatives(0, Case<NotEqual>("not_equal f32",
                                        {Integers(DType::kF32, s, 0, 3), Integers(DType::kF32, s, 0, 3)})),
          Derivatives(0, Case<GreaterEqual>("greater_equal f32", {Integers(DType::kF32, s, 0, 3),
                                                                  Integers(DType::kF32, {}, 0, 3)})),
          Derivatives(0, Case<Equal>("equal three groups", {Integers(DType::kF32, {2, 1, 4}, 0, 3),
                                                            Integers(DType::kF32, {3, 1}, 0, 3)})),
          Derivatives(0, Case<Less>("less", {F32(s), F32(s)})),
          Derivatives(0, Case<LessEqual>("less_equal", {Integers(DType::kF32, {3, 1}, 0, 3),
                                                        Integers(DType::kF32, {5}, 0, 3)})),
          Derivatives(0, Case<Greater>("greater", {F32(s), F32({})})),
          Derivatives(0, Case<GreaterEqual>("greater_equal",
                                            {Integers(DType::kU8, s, 0, 3), Integers(DType::kU8, s, 0, 3)})),
          Derivatives(0, Case<IsFinite>("is_finite", {F32(s)})),
          Derivatives(0, Case<LogicalAnd>("logical_and",
                                          {Integers(DType::kU8, s, 0, 2), Integers(DType::kU8, {5}, 0, 2)})),
          Derivatives(0, Case<LogicalOr>("logical_or",
                                         {Integers(DType::kU8, s, 0, 1), Integers(DType::kU8, s, 0, 1)})),
          Derivatives(0, Case<LogicalXor>("logical_xor",
                                          {Integers(DType::kU8, s, 0, 2), Integers(DType::kU8, s, 0, 2)})),
          Derivatives(0, Case<LogicalNot>("logical_not", {Integers(DType::kU8, s, 0, 2)})),
          Case<Where>("where", {Integers(DType::kU8, s, 0, 1), F32(s), F32(s)}),
          Case<Where>("where scalar", {Integers(DType::kU8, s, 0, 1), F32(s), F32({})}),
          Case<Where>("where mask of rows",
                      {Integers(DType::kU8, {3, 5}, 0, 1), F32({2, 3, 5}), F32({2, 1, 1})}),
          Case<Where>("where mask of one column",
                      {Integers(DType::kU8, {3, 1}, 0, 1), F32({1}), F32({3, 7})}),
          Case<Where>("where across", {Integers(DType::kU8, {2, 1, 4}, 0, 1), F32({3, 1}), F32({2, 3, 4})}),
          Derivatives(0,
                      Case<Where>("where i64", {Integers(DType::kU8, s, 0, 1), Integers(DType::kI64, s, 0, 9),
                                                Integers(DType::kI64, {5}, 0, 9)})),
      });
}

}  // namespace leat::ops::cases
