// Convolutions, pools and norms: ops that depend on the position of the channel axis.

#include "compute/onnx/attributes.h"
#include "compute/onnx/build.h"
#include "compute/ops/ops.h"

namespace leat::onnx {
namespace {

using ops::Padding;
using ops::Pair;

// Input 0 as images with channels last: [N, C, H, W], or [N, C, L] as images of one row.
Value Images(const NodeContext& call) {
  const Shape& shape = call.ShapeOf(0);
  if (shape.rank() == 4) return call.F32Last(0);
  if (shape.rank() != 3) Fail("takes [N, C, H, W] or [N, C, L], not " + shape.ToString());
  const Value x = call.graph().Make<ops::Transpose>({call.F32(0)}, std::vector<int>{0, 2, 1});
  return call.graph().Make<ops::Reshape>({x}, Shape{shape[0], 1, shape[2], shape[1]});
}

void PutImages(const NodeContext& call, Value y) {
  Graph& graph = call.graph();
  if (call.ShapeOf(0).rank() == 4) return call.OutLast(0, y);
  const Shape shape = graph.shape(y);
  if (shape[1] != 1) Fail("1-D input gives " + shape.ToString() + "; must have height 1");
  y = graph.Make<ops::Reshape>({y}, Shape{shape[0], shape[2], shape[3]});
  call.Out(0, graph.Make<ops::Transpose>({y}, std::vector<int>{0, 2, 1}));
}

// An attribute with one number per image axis. For 1-D inputs, the height is `row`.
Pair PairOf(const NodeContext& call, std::string_view name, int64_t fallback, int64_t row) {
  const size_t axes = call.ShapeOf(0).rank() - 2;
  const auto given = IntsAttribute(call.node, name);
  if (given && given->size() != axes) {
    Fail(std::string(name) + " has " + std::to_string(given->size()) + " values for " + std::to_string(axes) +
         " axes");
  }
  if (axes == 1) return {row, given ? (*given)[0] : fallback};
  return {given ? (*given)[0] : fallback, given ? (*given)[1] : fallback};
}

void CheckPair(std::string_view name, const Pair& pair, int64_t least) {
  constexpr int64_t kMax = INT32_MAX;
  if (pair.height < least || pair.width < least || pair.height > kMax || pair.width > kMax) {
    Fail(std::string(name) + " is " + ops::ToString(pair) + "; must be between " + std::to_string(least) +
         " and " + std::to_string(kMax));
  }
}

// The padding from auto_pad or pads. `extent`: the dilated kernel.
Padding PaddingOf(const NodeContext& call, const Pair& image, const Pair& extent, const Pair& strides) {
  const auto mode = StringAttribute(call.node, "auto_pad", "NOTSET");
  const auto pads = IntsAttribute(call.node, "pads");
  const size_t axes = call.ShapeOf(0).rank() - 2;
  if (mode == "VALID") return {};
  if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    const auto total = [](int64_t size, int64_t span, int64_t stride) {
      return std::max<int64_t>(((size + stride - 1) / stride - 1) * stride + span - size, 0);
    };
    const int64_t height = total(image.height, extent.height, strides.height);
    const int64_t width = total(image.width, extent.width, strides.width);
    const bool upper = mode == "SAME_UPPER";  // an odd element is added at the end
    const int64_t top = upper ? height / 2 : height - height / 2,
                  left = upper ? width / 2 : width - width / 2;
    return {.top = top, .left = left, .bottom = height - top, .right = width - left};
  }
  if (mode != "NOTSET") Fail("auto_pad " + Quoted(mode) + " is not supported");
  if (!pads) return {};
  if (pads->size() != 2 * axes) {
    Fail("pads has " + std::to_string(pads->size()) + " values for " + std::to_string(axes) + " axes");
  }
  for (const int64_t pad : *pads) {
    if (pad < 0 || pad > INT32_MAX) Fail("pad " + std::to_string(pad) + " is out of range");
  }
  if (axes == 1) return {.top = 0, .left = (*pads)[0], .bottom = 0, .right = (*pads)[1]};
  return {.top = (*pads)[0], .left = (*pads)[1], .bottom = (*pads)[2], .right = (*pads)[3]};
}

Pair ExtentOf(const Pair& kernel, const Pair& dilations) {
  return {(kernel.height - 1) * dilations.height + 1, (kernel.width - 1) * dilations.width + 1};
}

struct Filters {
  Value w;  // [O, C / groups, kh, kw]
  Pair kernel;
};

Filters FiltersOf(const NodeContext& call) {
  const Shape& w = call.ShapeOf(1);
  if (w.rank() != call.ShapeOf(0).rank()) {
    Fail("filters " + w.ToString() + " do not match input " + call.ShapeOf(0).ToString());
  }
  Filters filters{.w = call.F32(1), .kernel = {1, w[w.rank() - 1]}};
  if (w.rank() == 4) {
    filters.kernel.height = w[2];
  } else {
    filters.w = call.graph().Make<ops::Reshape>({filters.w}, Shape{w[0], w[1], 1, w[2]});
  }
  const Pair given = PairOf(call, "kernel_shape", 0, 1);
  if (call.node.attributes.contains("kernel_shape") && given != filters.kernel) {
    Fail("kernel_shape is " + ops::ToString(given) + ", its filters are " + w.ToString());
  }
  CheckPair("kernel", filters.kernel, 1);
  return filters;
}

Value WithBias(const NodeContext& call, Value y) {
  return call.Has(2) ? call.graph().Make<ops::BiasAdd>({y, call.F32(2)}) : y;
}

// All but the padding.
ops::Conv2dAttributes AttributesOf(const NodeContext& call) {
  ops::Conv2dAttributes attributes;
  attributes.strides = PairOf(call, "strides", 1, 1);
  attributes.dilations = PairOf(call, "dilations", 1, 1);
  attributes.groups = IntAttribute(call.node, "group", 1);
  CheckPair("strides", attributes.strides, 1);
  CheckPair("dilations", attributes.dilations, 1);
  return attributes;
}

void BuildConv(const NodeContext& call) {
  Graph& graph = call.graph();
  const Value x = Images(call);
  const Filters filters = FiltersOf(call);
  ops::Conv2dAttributes attributes = AttributesOf(call);
  attributes.padding = PaddingOf(call, ops::ImageSize(graph.shape(x)),
                                 ExtentOf(filters.kernel, attributes.dilations), attributes.strides);
  PutImages(call, WithBias(call, graph.Make<ops::Conv2d>({x, filters.w}, attributes)));
}

// Output size of a transposed convolution along one axis, and its padding.
struct Spread {
  int64_t size, before, after;
};
Spread SpreadOf(int64_t in, int64_t stride, int64_t extent, int64_t more, int64_t before, int64_t after,
                std::string_view mode) {
  if (mode != "NOTSET" && mode != "VALID") {
    const int64_t total = std::max<int64_t>(extent + more - stride, 0);
    const int64_t half = total / 2;
    before = mode == "SAME_UPPER" ? half : total - half;
    after = total - before;
  }
  const __int128 size = static_cast<__int128>(in - 1) * stride + more + extent - before - after;
  if (size < 1 || size > INT32_MAX)
    Fail("output size for an input axis of " + std::to_string(in) + " is out of range");
  return {static_cast<int64_t>(size), before, after};
}

void BuildConvTranspose(const NodeContext& call) {
  Graph& graph = call.graph();
  if (call.node.attributes.contains("output_shape"))
    Fail("output_shape is not supported; use pads and output_padding");
  const Value x = Images(call);
  const Filters filters = FiltersOf(call);
  ops::Conv2dAttributes attributes = AttributesOf(call);
  const Pair more = PairOf(call, "output_padding", 0, 0);
  CheckPair("output_padding", more, 0);
  const auto mode = StringAttribute(call.node, "auto_pad", "NOTSET");
  const Pair extent = ExtentOf(filters.kernel, attributes.dilations), image = ops::ImageSize(graph.shape(x));
  const Padding given = mode == "NOTSET" ? PaddingOf(call, image, extent, attributes.strides) : Padding{};
  const Spread height = SpreadOf(image.height, attributes.strides.height, extent.height, more.height,
                                 given.top, given.bottom, call.ShapeOf(0).rank() == 4 ? mode : "NOTSET");
  const Spread width = SpreadOf(image.width, attributes.strides.width, extent.width, more.width, given.left,
                                given.right, mode);
  attributes.padding = {
      .top = height.before, .left = width.before, .bottom = height.after, .right = width.after};
  const Value y = graph.Make<ops::Conv2dGradInput>({x, filters.w}, attributes, Pair{height.size, width.size});
  PutImages(call, WithBias(call, y));
}

struct Pool {
  Value x;
  ops::PoolAttributes attributes;
  bool grown = false;  // by ceil_mode
};

Pool PoolOf(const NodeContext& call) {
  Pool pool{.x = Images(call), .attributes = {}};
  auto& attributes = pool.attributes;
  if (!call.node.attributes.contains("kernel_shape")) Fail("has no kernel_shape");
  attributes.kernel = PairOf(call, "kernel_shape", 1, 1);
  attributes.strides = PairOf(call, "strides", 1, 1);
  const Pair dilations = PairOf(call, "dilations", 1, 1);
  CheckPair("kernel_shape", attributes.kernel, 1);
  CheckPair("strides", attributes.strides, 1);
  if (dilations != Pair{1, 1}) Fail("dilations " + ops::ToString(dilations) + " are not supported");
  const Pair image = ops::ImageSize(call.graph().shape(pool.x));
  auto& padding = attributes.padding;
  padding = PaddingOf(call, image, attributes.kernel, attributes.strides);
  if (IntAttribute(call.node, "ceil_mode", 0) == 0) return pool;
  // ceil_mode adds a partial window if it starts within the image or the padding before it.
  const auto grow = [&](int64_t size, int64_t kernel, int64_t stride, int64_t before, int64_t* after) {
    const int64_t span = size + before + *after - kernel;
    if (span < 0 || span % stride == 0) return;
    const int64_t windows = (span + stride - 1) / stride;
    if (windows * stride >= size + before) return;
    *after += windows * stride - span;
    pool.grown = true;
  };
  grow(image.height, attributes.kernel.height, attributes.strides.height, padding.top, &padding.bottom);
  grow(image.width, attributes.kernel.width, attributes.strides.width, padding.left, &padding.right);
  return pool;
}

void BuildMaxPool(const NodeContext& call) {
  if (call.Wants(1)) Fail("its indices are not supported");
  const Pool pool = PoolOf(call);
  PutImages(call, call.graph().Make<ops::MaxPool>({pool.x}, pool.attributes));
}

void BuildAveragePool(const NodeContext& call) {
  const bool include = IntAttribute(call.node, "count_include_pad", 0) != 0;
  const Pool pool = PoolOf(call);
  if (include && pool.grown) Fail("count_include_pad with a ceil_mode that adds windows is not supported");
  PutImages(call, call.graph().Make<ops::AvgPool>({pool.x}, pool.attributes, include));
}

void BuildGlobalAveragePool(const NodeContext& call) {
  const Value x = Images(call);
  PutImages(call, call.graph().Make<ops::ReduceMean>({x}, std::vector<int>{1, 2}, true));
}

void BuildGlobalMaxPool(const NodeContext& call) {
  const Value x = Images(call);
  PutImages(call, call.graph().Make<ops::MaxPool>(
                      {x}, ops::PoolAttributes{.kernel = ops::ImageSize(call.graph().shape(x))}));
}

// Norms.

// Checks that each of inputs 1 to `count` has one value per channel.
void CheckChannels(const NodeContext& call, size_t count) {
  const int64_t channels = call.ShapeOf(0)[1];
  for (size_t i = 1; i <= count; ++i) {
    if (call.ShapeOf(i) != Shape{channels}) {
      Fail("input " + std::to_string(i) + " is " + call.ShapeOf(i).ToString() + " for " +
           std::to_string(channels) + " channels");
    }
  }
}

// Normalises with batch statistics in training and with running statistics in scoring.
Value Normalised(const NodeContext& call, Value x) {
  Graph& graph = call.graph();
  const float epsilon = FloatAttribute(call.node, "epsilon", 1e-5f);
  const float momentum = FloatAttribute(call.node, "momentum", 0.9f);
  const Value scale = call.F32(1), offset = call.F32(2), mean = call.F32(3), variance = call.F32(4);
  const bool moves =
      graph.node(mean).op->kind() == "variable" && graph.node(variance).op->kind() == "variable";
  if (call.step().training && moves) {
    const Value y = graph.Make<ops::BatchNorm>({x, scale, offset, call.step().weights}, epsilon);
    // A batch that is all padding has no mean and must not change the running values.
    const Value count = graph.Make<ops::ReduceSum>({graph.Make<ops::Relu>({call.step().weights})});
    const Value share = graph.Make<ops::Scale>({graph.Make<ops::Sign>({count})}, 1 - momentum);
    const auto move = [&](Value statistic, uint32_t output) {
      // Statistics shared by two norms are updated only by the first.
      for (const auto& [value, by] : call.step().statistics) {
        if (value == statistic) return;
      }
      const Value distance = graph.Make<ops::Sub>({statistic, Value{y.node, output}});
      call.step().statistics.emplace_back(statistic, graph.Make<ops::Mul>({distance, share}));
    };
    move(mean, 1);
    move(variance, 2);
    return y;
  }
  const Value deviation = graph.Make<ops::Rsqrt>({graph.Make<ops::Scale>({variance}, 1.0f, epsilon)});
  const Value factor = graph.Make<ops::Mul>({scale, deviation});
  const Value shift = graph.Make<ops::Sub>({offset, graph.Make<ops::Mul>({mean, factor})});
  return graph.Make<ops::BiasAdd>({graph.Make<ops::Mul>({x, factor}), shift});
}

void BuildBatchNormalization(const NodeContext& call) {
  const Shape& shape = call.ShapeOf(0);
  for (size_t i = 1; i < call.node.outputs.size(); ++i) {
    if (call.Wants(i)) Fail("its statistics outputs are not supported");
  }
  if (shape.rank() < 2) Fail("takes [N, C, ...], not " + shape.ToString());
  CheckChannels(call, 4);
  if (shape.rank() == 2) return call.Out(0, Normalised(call, call.F32(0)));
  if (shape.rank() > 4) Fail("of " + shape.ToString() + " is not supported");
  PutImages(call, Normalised(call, Images(call)));
}

Value Filled(Graph& graph, int64_t size, float value) {
  constexpr int64_t kMax = int64_t{1} << 24;
  if (size > kMax) Fail("normalises over " + std::to_string(size) + " elements; at most 2^24 are supported");
  return graph.Make<graph::Constant>({}, Shape{size}, value);
}

void BuildLayerNormalization(const NodeContext& call) {
  Graph& graph = call.graph();
  if (call.Wants(1) || call.Wants(2)) Fail("its mean and deviation outputs are not supported");
  const Shape shape = call.ShapeOf(0);
  const size_t axis = AxisOf(IntAttribute(call.node, "axis", -1), shape.rank());
  int64_t inner = 1;
  for (size_t i = axis; i < shape.rank(); ++i) inner *= shape[i];
  if (inner == 0) Fail("normalises over no elements");
  const auto flat = [&](size_t i) {
    const Value v = call.F32(i);
    if (graph.shape(v).elements() != inner) {
      Fail("input " + std::to_string(i) + " is " + graph.shape(v).ToString() + "; must have " +
           std::to_string(inner) + " elements");
    }
    return graph.shape(v).rank() == 1 ? v : graph.Make<ops::Reshape>({v}, Shape{inner});
  };
  const Value scale = flat(1), offset = call.Has(2) ? flat(2) : Filled(graph, inner, 0);
  Value x = call.F32(0);
  const bool whole = axis + 1 == shape.rank();
  if (!whole) x = graph.Make<ops::Reshape>({x}, Shape{shape.elements() / inner, inner});
  Value y = graph.Make<ops::LayerNorm>({x, scale, offset}, FloatAttribute(call.node, "epsilon", 1e-5f));
  if (!whole) y = graph.Make<ops::Reshape>({y}, shape);
  call.Out(0, y);
}

// Normalises each of `groups` groups of channels of x[N, C, ...], then scales and shifts by channel.
Value NormalisedGroups(const NodeContext& call, int64_t groups, float epsilon) {
  Graph& graph = call.graph();
  const Shape shape = call.ShapeOf(0);
  if (shape.rank() < 2 || shape.elements() == 0)
    Fail("needs a non-empty [N, C, ...], not " + shape.ToString());
  if (groups < 1 || shape[1] % groups != 0) {
    Fail(std::to_string(shape[1]) + " channels cannot be divided into " + std::to_string(groups) + " groups");
  }
  CheckChannels(call, 2);
  const int64_t rows = shape[0] * groups, inner = shape.elements() / rows;
  const Value x = graph.Make<ops::Reshape>({call.F32(0)}, Shape{rows, inner});
  Value y = graph.Make<ops::LayerNorm>({x, Filled(graph, inner, 1), Filled(graph, inner, 0)}, epsilon);
  y = graph.Make<ops::Reshape>({y}, Shape{shape[0], shape[1], shape.elements() / shape[0] / shape[1]});
  const auto channels = [&](size_t i) { return graph.Make<ops::Reshape>({call.F32(i)}, Shape{shape[1], 1}); };
  y = graph.Make<ops::Add>({graph.Make<ops::Mul>({y, channels(1)}), channels(2)});
  return graph.Make<ops::Reshape>({y}, shape);
}

void BuildInstanceNormalization(const NodeContext& call) {
  if (call.ShapeOf(0).rank() < 2) Fail("takes [N, C, ...], not " + call.ShapeOf(0).ToString());
  call.Out(0, NormalisedGroups(call, call.ShapeOf(0)[1], FloatAttribute(call.node, "epsilon", 1e-5f)));
}

void BuildGroupNormalization(const NodeContext& call) {
  if (call.opset() < 21) Fail("is supported since opset 21");
  const int64_t groups = IntAttribute(call.node, "num_groups", 0);
  call.Out(0, NormalisedGroups(call, groups, FloatAttribute(call.node, "epsilon", 1e-5f)));
}

constexpr OpRow kImageOps[] = {
    {"AveragePool", BuildAveragePool},
    {"BatchNormalization", BuildBatchNormalization},
    {"Conv", BuildConv},
    {"ConvTranspose", BuildConvTranspose},
    {"GlobalAveragePool", BuildGlobalAveragePool},
    {"GlobalMaxPool", BuildGlobalMaxPool},
    {"GroupNormalization", BuildGroupNormalization},
    {"InstanceNormalization", BuildInstanceNormalization},
    {"LayerNormalization", BuildLayerNormalization},
    {"MaxPool", BuildMaxPool},
};

}  // namespace

std::span<const OpRow> ImageOps() {
  return kImageOps;
}

}  // namespace leat::onnx
