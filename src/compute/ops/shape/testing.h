// Test cases of the ops of this family.
#pragma once

#include "compute/ops/ops.h"
#include "compute/ops/testing.h"

namespace leat::ops::cases {

inline void AddReductionCases(OpCaseList& cases) {
  using Axes = std::vector<int>;
  const Shape s{2, 3, 4};
  cases.insert(
      cases.end(),
      {
          Case<SumTo>("sum_to", {F32(s)}, Shape{3, 1}),
          Case<SumTo>("sum_to rows", {F32({6, 5})}, Shape{5}),
          Case<SumTo>("sum_to scalar", {F32(s)}, Shape{}),
          Case<ReduceSum>("reduce_sum all", {F32(s)}),
          Case<ReduceSum>("reduce_sum inner", {F32(s)}, Axes{-1}),
          Case<ReduceSum>("reduce_sum outer kept", {F32(s)}, Axes{0, 1}, true),
          Case<ReduceMean>("reduce_mean all", {F32(s)}),
          Case<ReduceMean>("reduce_mean middle", {F32(s)}, Axes{1}),
          Case<ReduceMax>("reduce_max all", {F32({7})}),
          Case<ReduceMax>("reduce_max inner", {F32({2, 3})}, Axes{-1}),
          Case<ReduceMin>("reduce_min outer kept", {F32({3, 4})}, Axes{0}, true),
          Case<ReduceProd>("reduce_prod all", {F32({5}, 0.5f, 1.5f)}),
          Case<ReduceProd>("reduce_prod middle", {F32(s, 0.5f, 1.5f)}, Axes{1}),
          Case<ProdOfOthers>("prod_of_others", {F32({2, 4}, 0.5f, 1.5f)}, Axes{1}),
          Derivatives(
              1, Case<ReduceProd>("reduce_prod of zeros", {Integers(DType::kF32, {4, 3}, 0, 1)}, Axes{1})),
          Derivatives(0, Case<ProdOfOthers>("prod_of_others of zeros", {Integers(DType::kF32, {6, 3}, 0, 2)},
                                            Axes{1})),
          Case<LogSumExp>("log_sum_exp all", {F32(s)}),
          Case<LogSumExp>("log_sum_exp inner", {F32({3, 7}, -30, 30)}, Axes{1}),
          Case<LogSumExp>("log_sum_exp outer kept", {F32(s)}, Axes{0}, true),
          Case<ReduceL2>("reduce_l2", {F32(s, 0.5f, 2)}, Axes{-1}),
          Case<ReduceL2>("reduce_l2 all", {F32(s)}),
          Derivatives(0, Case<ArgMax>("arg_max", {F32(s)})),
          Derivatives(0, Case<ArgMax>("arg_max of equal ones", {Integers(DType::kF32, {5, 9}, 0, 2)}, -1,
                                      true, DType::kI32)),
          Derivatives(0, Case<ArgMin>("arg_min outer", {F32(s)}, 0)),
          Derivatives(0, Case<ArgMin>("arg_min middle", {Integers(DType::kF32, {3, 6, 4}, 0, 2)}, 1)),
          Case<CumSum>("cumsum", {F32(s)}, 1),
          Case<CumSum>("cumsum exclusive", {F32({4})}, 0, true),
          Case<CumSum>("cumsum reverse", {F32(s)}, -1, false, true),
          Case<CumSum>("cumsum exclusive reverse", {F32(s)}, 0, true, true),
      });
}

inline void AddShapeCases(OpCaseList& cases) {
  using Axes = std::vector<int>;
  using Sizes = std::vector<int64_t>;
  const Shape s{2, 3, 4};
  cases.insert(
      cases.end(),
      {
          Case<BroadcastTo>("broadcast_to", {F32({3, 1})}, Shape{2, 3, 4}),
          Case<Reshape>("reshape", {F32(s)}, Shape{4, 6}),
          Case<Transpose>("transpose", {F32({3, 5})}),
          Case<Transpose>("transpose 3-d", {F32(s)}, Axes{2, 0, 1}),
          Case<Concat>("concat", {F32({2, 3}), F32({2, 1}), F32({2, 2})}, -1),
          Case<Concat>("concat outer", {F32({1, 3}), F32({2, 3})}, 0),
          Case<Slice>("slice", {F32(s)}, Sizes{1, 0, 1}, Sizes{1, 3, 2}),
          Case<Pad>("pad", {F32({2, 3})}, Sizes{1, 0}, Sizes{0, 2}),
          Derivatives(0, Case<BroadcastTo>("broadcast_to i64", {Integers(DType::kI64, {3, 1}, -9, 9)},
                                           Shape{2, 3, 4})),
          Case<BroadcastTo>("broadcast_to in the middle", {F32({2, 1, 3, 1})}, Shape{2, 4, 3, 2}),
          Derivatives(0, Case<Transpose>("transpose u8", {Integers(DType::kU8, {3, 5}, 0, 255)})),
          Derivatives(0, Case<Transpose>("transpose bf16",
                                         {{{DType::kBf16, {2, 3, 5}}, -2, 2, SampleInput::Draw::kUniform}},
                                         Axes{0, 2, 1})),
          Derivatives(0, Case<Transpose>("transpose i64", {Integers(DType::kI64, s, 0, 255)}, Axes{1, 0, 2})),
          Case<Transpose>("transpose heads", {F32({2, 3, 4, 5})}, Axes{0, 2, 1, 3}),
          Case<Transpose>("transpose last two", {F32({2, 3, 4, 5})}, Axes{0, 1, 3, 2}),
          Case<Transpose>("transpose channels first", {F32({2, 3, 4, 5})}, Axes{0, 3, 1, 2}),
          Case<Transpose>("transpose all around", {F32({2, 3, 4, 5})}, Axes{3, 2, 1, 0}),
          Case<Transpose>("transpose nothing", {F32(s)}, Axes{0, 1, 2}),
          Case<Transpose>("transpose 6-d", {F32({2, 3, 1, 2, 3, 2})}, Axes{4, 1, 5, 0, 2, 3}),
          Derivatives(
              0, Case<Concat>("concat i32",
                              {Integers(DType::kI32, {2, 3}, 0, 9), Integers(DType::kI32, {2, 1}, 0, 9)}, 1)),
          Case<Concat>("concat middle", {F32({2, 3, 2}), F32({2, 0, 2}), F32({2, 1, 2})}, 1),
          Case<Concat>("concat of one", {F32({2, 3})}, 0),
          Case<Split>("split", {F32({2, 6})}, 1, Sizes{1, 3, 2}),
          Case<Split>("split outer", {F32({5, 2, 3})}, 0, Sizes{2, 3}),
          Case<Split>("split middle", {F32({2, 5, 3})}, -2, Sizes{2, 0, 3}),
          Derivatives(0, Case<Split>("split u8", {Integers(DType::kU8, {4, 3}, 0, 255)}, 1, Sizes{1, 2})),
          Case<Slice>("slice rows", {F32({5, 3})}, Sizes{1, 0}, Sizes{3, 3}),
          Case<Slice>("slice inner", {F32({2, 3, 8})}, Sizes{0, 0, 2}, Sizes{2, 3, 5}),
          Case<Slice>("slice by steps", {F32({5, 7})}, Sizes{0, 1}, Sizes{3, 3}, Sizes{2, 2}),
          Case<Slice>("slice backwards", {F32({4, 5})}, Sizes{3, 4}, Sizes{4, 3}, Sizes{-1, -2}),
          Case<Slice>("slice of nothing", {F32({4, 5})}, Sizes{4, 0}, Sizes{0, 5}),
          Derivatives(
              0, Case<Slice>("slice i64", {Integers(DType::kI64, {7}, 0, 9)}, Sizes{1}, Sizes{3}, Sizes{2})),
          Case<SliceGrad>("slice_grad", {F32({3, 2})}, Shape{4, 5}, Sizes{3, 0}, Sizes{-1, 3}),
          Case<Pad>("pad with a value", {F32({2, 3})}, Sizes{1, 2}, Sizes{1, 0}, PadMode::kConstant, 1.5f),
          Case<Pad>("pad images", {F32({2, 3, 4, 2})}, Sizes{0, 1, 2, 0}, Sizes{0, 2, 1, 0}),
          Case<Pad>("pad edge", {F32({2, 3})}, Sizes{1, 4}, Sizes{2, 2}, PadMode::kEdge),
          Case<Pad>("pad reflect", {F32({3, 4})}, Sizes{2, 3}, Sizes{1, 2}, PadMode::kReflect),
          Case<Pad>("pad reflect one axis", {F32({2, 4})}, Sizes{0, 1}, Sizes{0, 0}, PadMode::kReflect),
          Case<PadGrad>("pad_grad edge", {F32({5, 9})}, Sizes{1, 4}, Sizes{2, 2}, PadMode::kEdge),
          Case<PadGrad>("pad_grad reflect", {F32({6, 9})}, Sizes{2, 3}, Sizes{1, 2}, PadMode::kReflect),
          Derivatives(0, Case<Pad>("pad u8", {Integers(DType::kU8, {2, 3}, 0, 255)}, Sizes{1, 0}, Sizes{0, 2},
                                   PadMode::kConstant, 7.0f)),
      });
}

}  // namespace leat::ops::cases
