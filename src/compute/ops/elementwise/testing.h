// Test cases of the ops of this family.
#pragma once

#include "compute/ops/ops.h"
#include "compute/ops/testing.h"

namespace leat::ops::cases {

// Test cases of arithmetic and of the ops of compute/graph/builtin.h.
inline void AddArithmeticCases(OpCaseList& cases) {
  const Shape s{3, 5};
  const Tensor values = Tensor::Of<float>({3}, std::vector<float>{1.5f, -2, 0.25f});
  cases.insert(
      cases.end(),
      {
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
          Case<Scale>("scale", {F32(s)}, -1.5f),
          Case<Scale>("scale and offset", {F32(s)}, 2.0f, 0.75f),
          Case<Erf>("erf", {F32(s)}),
          Case<Rsqrt>("rsqrt", {F32(s, 0.5f, 3)}),
          Case<Reciprocal>("reciprocal", {F32(s, 0.5f, 3)}),
          Case<Log1p>("log1p", {F32(s, -0.4f, 3)}),
          Case<Expm1>("expm1", {F32(s)}),
          Case<Sin>("sin", {F32(s)}),
          Case<Cos>("cos", {F32(s)}),
          Derivatives(0, Case<Floor>("floor", {F32(s)})),
          Derivatives(0, Case<Ceil>("ceil", {F32(s)})),
          Derivatives(0, Case<Round>("round", {F32(s)})),
          Case<Minimum>("minimum", {F32(s, 0, 1), F32(s, 2, 3)}),
          Case<Minimum>("minimum broadcast", {AwayFromZero({3, 1}), F32({5}, 0, 0)}),
          Case<Maximum>("maximum", {F32(s, 0, 1), F32(s, 2, 3)}),
          Case<Maximum>("maximum broadcast", {F32({}, 0, 0), AwayFromZero({3, 1, 4})}),
          Case<Pow>("pow", {F32(s, 0.5f, 3), F32(s)}),
          Case<Pow>("pow broadcast", {F32({3, 1}, 0.5f, 2), F32({5})}),
          Case<Power>("power 3", {F32(s)}, 3.0f),
          Case<Power>("power 2", {F32(s)}, 2.0f),
          Case<Power>("power 1", {F32(s)}, 1.0f),
          Case<Power>("power 0", {F32(s)}, 0.0f),
          Case<Power>("power 0.5", {F32(s, 0.5f, 3)}, 0.5f),
          Case<Power>("power -0.5", {F32(s, 0.5f, 3)}, -0.5f),
          Case<Power>("power -2", {F32(s, 0.5f, 3)}, -2.0f),
          Case<Power>("power 1.7", {F32(s, 0.5f, 3)}, 1.7f),
          Derivatives(0, Case<Cast>("cast u8", {Integers(DType::kU8, s, 0, 255)})),
          Derivatives(0, Case<Cast>("cast i32", {Integers(DType::kI32, s, -100, 100)})),
          Derivatives(0, Case<Cast>("cast i64", {Integers(DType::kI64, s, -100, 100)})),
          Derivatives(0, Case<Cast>("cast f32 to i32", {F32(s, -100, 100)}, DType::kI32)),
          Derivatives(0, Case<Cast>("cast f32 to u8", {F32(s, -100, 400)}, DType::kU8)),
          Derivatives(0, Case<Cast>("cast f32 to i64", {F32(s, -100, 100)}, DType::kI64)),
          Derivatives(0, Case<Cast>("cast f32 to bf16", {F32({7, 37})}, DType::kBf16)),
          Derivatives(0, Case<Cast>("cast bf16", {{{DType::kBf16, s}, -2, 2, SampleInput::Draw::kUniform}})),
          Derivatives(0, Case<Cast>("cast i64 to i32", {Integers(DType::kI64, s, -100, 100)}, DType::kI32)),
      });
}

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
