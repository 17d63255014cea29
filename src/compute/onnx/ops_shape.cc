// Ops that move elements without changing them, and shape computations.
#include <algorithm>
#include <numeric>

#include "base/rng.h"
#include "compute/onnx/attributes.h"
#include "compute/onnx/build.h"
#include "compute/onnx/fold.h"
#include "compute/ops/ops.h"
#include "compute/ops/shape/shape.h"

namespace leat::onnx {
namespace {

using ops::SizesOf;

// Adds a reshape; replaces a preceding one.
Value Reshaped(Graph& graph, Value x, const Shape& shape) {
  while (graph.node(x).op->is_view()) x = graph.node(x).inputs[0];
  return graph.shape(x) == shape ? x : graph.Make<ops::Reshape>({x}, shape);
}

void PutReshaped(const NodeContext& call, const Shape& shape) {
  call.Out(0, Reshaped(call.graph(), call.Plain(0), shape));
}

// The only axis along which two shapes differ, if there is exactly one.
std::optional<size_t> OnlyDifference(const Shape& a, const Shape& b) {
  std::optional<size_t> found;
  if (a.rank() != b.rank()) return std::nullopt;
  for (size_t i = 0; i < a.rank(); ++i) {
    if (a[i] == b[i]) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

int64_t Product(const Shape& shape, size_t begin, size_t end) {
  int64_t product = 1;
  for (size_t i = begin; i < end; ++i) product *= shape[i];
  return product;
}

// The result shape of a Reshape whose constant sizes contain the file's fixed batch, for another batch size.
// The input axis that changes with the batch (`there` is the input shape for the file's batch) determines the
// output axis: the one that equals or covers it in row-major order. Fails if several axes are possible.
std::optional<Shape> Rebatched(const FixedBatch& fixed, const FileNode& node, const Shape& here) {
  const auto input = fixed.shapes.find(node.inputs[0]), output = fixed.shapes.find(node.outputs[0]);
  if (input == fixed.shapes.end() || output == fixed.shapes.end() || input->second == here)
    return std::nullopt;
  const Shape &there = input->second, &made = output->second;
  const auto axis = OnlyDifference(there, here);
  if (!axis || there[*axis] == 0 || made.elements() == 0) return std::nullopt;
  const int64_t inner = Product(there, *axis + 1, there.rank());
  std::vector<size_t> exact, covers, within;
  for (size_t j = 0; j < made.rank(); ++j) {
    const int64_t stride = Product(made, j + 1, made.rank());
    const bool holds_batch = made[j] % fixed.batch == 0;
    if (stride == inner && made[j] == there[*axis]) exact.push_back(j);
    if (holds_batch && stride <= inner && inner * there[*axis] <= stride * made[j]) covers.push_back(j);
    if (stride >= inner && stride * made[j] <= inner * there[*axis] && made[j] == fixed.batch)
      within.push_back(j);
  }
  const auto& choice = !exact.empty() ? exact : !covers.empty() ? covers : within;
  // Several exact matches are adjacent axes of size 1: take the first.
  if (choice.empty() || (exact.empty() && choice.size() > 1)) {
    Fail("reshapes " + there.ToString() + " to " + made.ToString() +
         "; it is unclear which axis is the batch; export with a symbolic batch axis");
  }
  auto sizes = SizesOf(made);
  const auto wide = static_cast<__int128>(sizes[choice[0]]) * here[*axis];
  if (wide % there[*axis] != 0 || wide / there[*axis] > Shape::kMaxElements) return std::nullopt;
  sizes[choice[0]] = static_cast<int64_t>(wide / there[*axis]);
  return Shape(sizes);
}

void BuildReshape(const NodeContext& call) {
  const Shape& from = call.ShapeOf(0);
  if (call.fixed() != nullptr && call.Wants(0)) {
    if (const auto shape = Rebatched(*call.fixed(), call.node, from)) return PutReshaped(call, *shape);
  }
  const auto target = call.KnownInts(1);
  PutReshaped(call, ReshapeTarget(from, target, IntAttribute(call.node, "allowzero", 0) != 0));
}

void BuildFlatten(const NodeContext& call) {
  const Shape& from = call.ShapeOf(0);
  int64_t axis = IntAttribute(call.node, "axis", 1);
  const auto rank = static_cast<int64_t>(from.rank());
  if (axis < -rank || axis > rank) Fail("axis " + std::to_string(axis) + " of " + from.ToString());
  if (axis < 0) axis += rank;
  const auto split = static_cast<size_t>(axis);
  PutReshaped(call, Shape{Product(from, 0, split), Product(from, split, from.rank())});
}

void BuildUnsqueeze(const NodeContext& call) {
  PutReshaped(call, Unsqueezed(call.ShapeOf(0), call.KnownInts(1)));
}

void BuildSqueeze(const NodeContext& call) {
  if (call.Has(1)) return PutReshaped(call, Squeezed(call.ShapeOf(0), call.KnownInts(1)));
  // Without axes, squeeze all axes of size 1 but the first: a batch of one is still a batch.
  const Shape& from = call.ShapeOf(0);
  std::vector<int64_t> axes;
  for (size_t i = 1; i < from.rank(); ++i) {
    if (from[i] == 1) axes.push_back(static_cast<int64_t>(i));
  }
  PutReshaped(call, Squeezed(from, axes));
}

// Adds a transpose; drops two that cancel each other.
Value Turned(Graph& graph, Value x, const std::vector<int>& order) {
  const auto& node = graph.node(x);
  const auto* before = dynamic_cast<const ops::Transpose*>(node.op.get());
  if (before != nullptr && before->permutation.size() == order.size()) {
    bool same = true;
    for (size_t i = 0; i < order.size(); ++i) {
      same = same && before->permutation[static_cast<size_t>(order[i])] == static_cast<int>(i);
    }
    if (same) return node.inputs[0];
  }
  return graph.Make<ops::Transpose>({x}, order);
}

void BuildTranspose(const NodeContext& call) {
  const size_t rank = call.ShapeOf(0).rank();
  std::vector<int> order(rank);
  for (size_t i = 0; i < rank; ++i) order[i] = static_cast<int>(rank - 1 - i);
  if (const auto given = IntsAttribute(call.node, "perm")) {
    if (given->size() != rank) {
      Fail("perm has " + std::to_string(given->size()) + " axes, its input " + call.ShapeOf(0).ToString());
    }
    for (size_t i = 0; i < rank; ++i) order[i] = static_cast<int>(AxisOf((*given)[i], rank));
  }
  // A transpose to channels last is free if the value already is channels last.
  if (order == std::vector<int>{0, 2, 3, 1} && call.IsLast(0)) return call.Out(0, call.ChannelsLast(0));
  if (order == std::vector<int>{0, 3, 1, 2} && !call.IsLast(0)) return call.OutLast(0, call.Plain(0));
  call.Out(0, Turned(call.graph(), call.Plain(0), order));
}

// Positions of batch, channels, height, width in channels-last layout.
constexpr int kPlaceOfLast[] = {0, 3, 1, 2};

void BuildConcat(const NodeContext& call) {
  if (call.inputs() == 0) Fail("has no inputs");
  const size_t axis = AxisOf(IntAttribute(call.node, "axis", 0), call.ShapeOf(0).rank());
  bool last = true;
  for (size_t i = 0; i < call.inputs(); ++i) last = last && call.IsLast(i);
  std::vector<Value> parts;
  for (size_t i = 0; i < call.inputs(); ++i) parts.push_back(call.F32(i, last));
  const int along = last ? kPlaceOfLast[axis] : static_cast<int>(axis);
  call.Put(0, call.graph().Make<ops::Concat>(std::move(parts), along), last);
}

// With the channels last.
std::vector<int64_t> Moved(const std::vector<int64_t>& v) {
  return {v[0], v[2], v[3], v[1]};
}

// The axes in input `i`, or all of `count` without it.
std::vector<int64_t> AxesIn(const NodeContext& call, size_t i, size_t count) {
  if (call.Has(i)) return call.KnownInts(i);
  std::vector<int64_t> axes(count);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

// Sets an output to a slice of input 0, in either layout.
void PutSlice(const NodeContext& call, size_t output, const std::vector<int64_t>& begin,
              const std::vector<int64_t>& size) {
  if (!call.IsLast(0)) return call.Out(output, call.graph().Make<ops::Slice>({call.Plain(0)}, begin, size));
  call.OutLast(output, call.graph().Make<ops::Slice>({call.ChannelsLast(0)}, Moved(begin), Moved(size)));
}

void BuildSlice(const NodeContext& call) {
  const Shape& from = call.ShapeOf(0);
  const auto starts = call.KnownInts(1), ends = call.KnownInts(2);
  const auto axes = AxesIn(call, 3, starts.size());
  std::vector<int64_t> steps(starts.size(), 1);
  if (call.Has(4)) steps = call.KnownInts(4);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    Fail("starts, ends, axes and steps differ in length");
  }
  std::vector<int64_t> begin(from.rank()), size = SizesOf(from);
  for (size_t i = 0; i < starts.size(); ++i) {
    const size_t axis = AxisOf(axes[i], from.rank());
    const auto range = SliceOf(starts[i], ends[i], steps[i], from[axis]);
    if (range.step != 1 && range.count > 1) Fail("step " + std::to_string(range.step) + " is not supported");
    begin[axis] = range.begin;
    size[axis] = range.count;
  }
  if (size == SizesOf(from)) return call.Forward(0, 0);
  PutSlice(call, 0, begin, size);
}

void BuildSplit(const NodeContext& call) {
  const Shape& from = call.ShapeOf(0);
  const size_t axis = AxisOf(IntAttribute(call.node, "axis", 0), from.rank());
  const auto sizes = SplitSizes(from[axis], call.node.outputs.size(), call.Has(1) ? &call.Known(1) : nullptr);
  std::vector<int64_t> begin(from.rank()), size = SizesOf(from);
  int64_t at = 0;
  const auto check = [&](bool fits) {
    if (!fits) Fail("sizes do not add up to axis " + std::to_string(axis) + " of " + from.ToString());
  };
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t own = sizes[i];
    check(own >= 0 && own <= from[axis] - at);
    begin[axis] = at;
    size[axis] = own;
    at += own;
    if (call.Wants(i)) PutSlice(call, i, begin, size);
  }
  check(at == from[axis]);
}

void BuildExpand(const NodeContext& call) {
  const Shape shape = ops::BroadcastShape(call.ShapeOf(0), Shape(call.KnownInts(1)));
  if (shape == call.ShapeOf(0)) return call.Forward(0, 0);
  call.Out(0, call.graph().Make<ops::BroadcastTo>({call.F32(0)}, shape));
}

void BuildShape(const NodeContext& call) {
  auto sizes = SizesOf(call.ShapeOf(0));
  const auto rank = static_cast<int64_t>(sizes.size());
  const auto place = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t start = place(std::max(IntAttribute(call.node, "start", 0), -rank));
  const int64_t end = place(std::max(IntAttribute(call.node, "end", rank), -rank));
  const std::vector<int64_t> part(sizes.begin() + start, sizes.begin() + std::max(start, end));
  call.OutKnown(0, Tensor::Of<int64_t>(Shape{static_cast<int64_t>(part.size())}, part));
}

void BuildSize(const NodeContext& call) {
  const int64_t elements = call.ShapeOf(0).elements();
  call.OutKnown(0, Tensor::Of<int64_t>(Shape{}, std::span(&elements, 1)));
}

void BuildConstant(const NodeContext& call) {
  if (const Tensor* tensor = TensorAttribute(call.node, "value")) return call.OutKnown(0, *tensor);
  if (call.node.attributes.contains("value_float")) {
    const float value = FloatAttribute(call.node, "value_float", 0);
    return call.OutKnown(0, Tensor::Of<float>(Shape{}, std::span(&value, 1)));
  }
  if (call.node.attributes.contains("value_int")) {
    const int64_t value = IntAttribute(call.node, "value_int", 0);
    return call.OutKnown(0, Tensor::Of<int64_t>(Shape{}, std::span(&value, 1)));
  }
  if (const auto values = IntsAttribute(call.node, "value_ints")) {
    return call.OutKnown(0, Tensor::Of<int64_t>(Shape{static_cast<int64_t>(values->size())}, *values));
  }
  const auto floats = call.node.attributes.find("value_floats");
  if (floats != call.node.attributes.end()) {
    if (const auto* values = std::get_if<std::vector<float>>(&floats->second.value)) {
      return call.OutKnown(0, Tensor::Of<float>(Shape{static_cast<int64_t>(values->size())}, *values));
    }
  }
  Fail("its kind of value is not supported");
}

void BuildIdentity(const NodeContext& call) {
  call.Forward(0, 0);
}

void BuildDropout(const NodeContext& call) {
  if (call.Wants(1)) Fail("its mask is not supported");
  float rate = 0.5f;
  if (call.Has(1)) rate = call.KnownScalar(1);
  if (!(rate >= 0 && rate < 1)) Fail("ratio is " + std::to_string(rate) + "; must be at least 0 and below 1");
  if (!call.step().training || rate == 0) return call.Forward(0, 0);
  const uint64_t salt = HashName(call.node.name + "/" + call.node.outputs[0]);
  const bool last = call.IsLast(0);
  const Value x = call.F32(0, last);
  call.Put(0, call.graph().Make<ops::Dropout>({x, call.step().random_seed}, rate, salt), last);
}

void PutCast(const NodeContext& call, DType to, bool to_bool) {
  if (to_bool ? call.IsBool(0) : to == call.In(0).type) return call.Forward(0, 0);
  if (call.In(0).known) return call.OutKnown(0, Converted(*call.In(0).known, to, to_bool));
  Graph& graph = call.graph();
  call.Out(0, to_bool ? ToBool(graph, call.Plain(0)) : graph.Make<ops::Cast>({call.Plain(0)}, to));
}

void BuildCast(const NodeContext& call) {
  const auto [type, is_bool] = CastTargetOf(call.node);
  PutCast(call, type, is_bool);
}

// The second input has the type, and may be any value.
void BuildCastLike(const NodeContext& call) {
  PutCast(call, call.In(1).type, call.IsBool(1));
}

void BuildPad(const NodeContext& call) {
  const Shape& from = call.ShapeOf(0);
  const auto name = StringAttribute(call.node, "mode", "constant");
  const auto modes = EnumeratorsOf(ops::PadMode());
  const auto mode = std::ranges::find(modes, name, &fields::Enumerator<ops::PadMode>::name);
  if (mode == modes.end()) Fail("mode " + Quoted(name) + " is not supported");
  const float fill = call.Has(2) ? call.KnownScalar(2) : 0;
  const auto pads = call.KnownInts(1);
  const auto axes = AxesIn(call, 3, from.rank());
  if (pads.size() != 2 * axes.size()) {
    Fail("has " + std::to_string(pads.size()) + " pads for " + std::to_string(axes.size()) + " axes");
  }
  std::vector<int64_t> before(from.rank()), after(from.rank());
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = AxisOf(axes[i], from.rank());
    before[axis] = pads[i];
    after[axis] = pads[i + axes.size()];
  }
  for (const int64_t pad : pads) {
    if (pad < 0 || pad > INT32_MAX) Fail("pad " + std::to_string(pad) + " is not supported");
  }
  const bool last = call.IsLast(0);
  if (last) {
    before = Moved(before);
    after = Moved(after);
  }
  call.Put(0, call.graph().Make<ops::Pad>({call.F32(0, last)}, before, after, mode->value, fill), last);
}

// Gather with constant indices: each run of consecutive indices becomes a slice.
void GatherKnown(const NodeContext& call, size_t axis) {
  Graph& graph = call.graph();
  const Shape& from = call.ShapeOf(0);
  auto indices = call.KnownInts(1);
  constexpr size_t kMaxPieces = 256;
  for (auto& index : indices) {
    if (index < -from[axis] || index >= from[axis]) {
      Fail("index " + std::to_string(index) + " is out of range for axis " + std::to_string(axis) + " of " +
           from.ToString());
    }
    if (index < 0) index += from[axis];
  }
  std::vector<Value> pieces;
  const Value x = call.Plain(0);
  for (size_t i = 0; i < indices.size();) {
    size_t end = i + 1;
    while (end < indices.size() && indices[end] == indices[end - 1] + 1) ++end;
    std::vector<int64_t> begin(from.rank()), size = SizesOf(from);
    begin[axis] = indices[i];
    size[axis] = static_cast<int64_t>(end - i);
    pieces.push_back(size == SizesOf(from) ? x : graph.Make<ops::Slice>({x}, begin, size));
    if (pieces.size() > kMaxPieces)
      Fail("more than " + std::to_string(kMaxPieces) + " runs of consecutive indices are not supported");
    i = end;
  }
  if (pieces.empty()) Fail("has no indices");
  const Value all =
      pieces.size() == 1 ? pieces[0] : graph.Make<ops::Concat>(std::move(pieces), static_cast<int>(axis));
  call.Out(0, Reshaped(graph, all, ops::GatheredShape(from, call.ShapeOf(1), static_cast<int>(axis))));
}

// Indices of which the negative ones count from the end of an axis.
Value CountedFromEnd(Graph& graph, Value indices, int64_t size) {
  constexpr int64_t kExact = int64_t{1} << 24;  // f32 has the whole numbers up to here
  if (size > kExact) return indices;
  const Value at = graph.Make<ops::Cast>({indices}, DType::kF32);
  const Value zero = graph.Make<graph::Constant>({}, 0.0f);
  const Value turned = graph.Make<ops::Where>(
      {graph.Make<ops::Less>({at, zero}), graph.Make<ops::Scale>({at}, 1.0f, static_cast<float>(size)), at});
  return graph.Make<ops::Cast>({turned}, DType::kI32);
}

void BuildGather(const NodeContext& call) {
  const size_t axis = AxisOf(IntAttribute(call.node, "axis", 0), call.ShapeOf(0).rank());
  if (call.In(1).known) return GatherKnown(call, axis);
  Graph& graph = call.graph();
  const TensorType table{call.In(0).type, call.ShapeOf(0)};
  if (call.In(1).type != DType::kI32 && call.In(1).type != DType::kI64) Fail("indices must be integers");
  Value indices = call.Plain(1);
  if (!call.IsBounded(1)) indices = CountedFromEnd(graph, indices, table.shape[axis]);
  if (axis != 0 || table.dtype != DType::kF32 || table.shape.rank() != 2) {
    return call.Out(0, graph.Make<ops::Gather>({call.Plain(0), indices}, static_cast<int>(axis)));
  }
  // A lookup in a table, with a sparse gradient. Avoid a cast of the ids to i64 and back.
  if (graph.type(indices).dtype != DType::kI32) {
    const auto& node = graph.node(indices);
    if (node.op->kind() == "cast") indices = node.inputs[0];
    indices = graph.Make<ops::Cast>({indices}, DType::kI32);
  }
  call.Out(0, graph.Make<ops::Embedding>({call.F32(0), indices}));
}

// Ops that are only supported for constants: reached only if an input depends on data.
void BuildKnownAlone(const NodeContext& call) {
  for (size_t i = 0; i < call.inputs(); ++i) {
    if (call.Has(i)) call.Known(i);
  }
  Fail("these constant inputs are not supported");
}

constexpr OpRow kShapeOps[] = {
    {"Cast", BuildCast},
    {"CastLike", BuildCastLike},
    {"Concat", BuildConcat},
    {"Constant", BuildConstant},
    {"ConstantOfShape", BuildKnownAlone},
    {"Dropout", BuildDropout},
    {"Expand", BuildExpand},
    {"Flatten", BuildFlatten},
    {"Gather", BuildGather},
    {"Identity", BuildIdentity},
    {"Mod", BuildKnownAlone},
    {"Pad", BuildPad},
    {"Range", BuildKnownAlone},
    {"ReduceProd", BuildKnownAlone},
    {"Reshape", BuildReshape},
    {"Shape", BuildShape},
    {"Size", BuildSize},
    {"Slice", BuildSlice},
    {"Split", BuildSplit},
    {"Squeeze", BuildSqueeze},
    {"Transpose", BuildTranspose},
    {"Trilu", BuildKnownAlone},
    {"Unsqueeze", BuildUnsqueeze},
};

}  // namespace

std::span<const OpRow> ShapeOps() {
  return kShapeOps;
}

}  // namespace leat::onnx
