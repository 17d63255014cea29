#include "ops/cases.h"
#include "ops/ops.h"

namespace leat::ops {

void AddShapeCases(OpCaseList& cases) {
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

}  // namespace leat::ops
