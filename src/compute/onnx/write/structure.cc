// Writers of ops that move or convert elements, and of convolutions, pooling and normalization.
#include <limits>

#include "compute/onnx/write/writer.h"
#include "compute/ops/ops.h"

namespace leat::onnx {

namespace {

void WriteCast(Writer& w, const Node& node) {
  w.Put(Out(node), false, w.Node("Cast", {w.Plain(node.inputs[0])}, node.name));
  w.Attribute("to", int64_t{TypeNumber(As<ops::Cast>(node).to)});
}

void WriteReshape(Writer& w, const Node& node) {
  w.Put(Out(node), false,
        w.Node("Reshape", {w.Plain(node.inputs[0]), w.Ints(w.Sizes(Out(node)), node.name + "/shape")},
               node.name));
}

void WriteTranspose(Writer& w, const Node& node) {
  const auto& order = As<ops::Transpose>(node).permutation;
  const Value x = node.inputs[0];
  if (order == std::vector<int>{0, 3, 1, 2}) return w.Put(Out(node), false, w.First(x));
  if (order == std::vector<int>{0, 2, 3, 1} && !w.IsFirst(x)) return w.Put(Out(node), true, w.Plain(x));
  w.Put(Out(node), false, w.Node("Transpose", {w.Plain(x)}, node.name));
  w.Attribute("perm", Ints(order.begin(), order.end()));
}

void WriteConcat(Writer& w, const Node& node) {
  const auto rank = static_cast<int>(w.shape(node.inputs[0]).rank());
  int axis = As<ops::Concat>(node).axis;
  if (axis < 0) axis += rank;
  bool first = rank == 4;
  for (const auto& input : node.inputs) first = first && w.IsFirst(input);
  std::vector<std::string> inputs;
  for (const auto& input : node.inputs) inputs.push_back(w.As(input, first));
  w.Put(Out(node), first, w.Node("Concat", inputs, node.name));
  w.Attribute("axis", first ? kPlaceFirst[axis] : int64_t{axis});
}

void WriteSlice(Writer& w, const Node& node) {
  const auto& slice = As<ops::Slice>(node);
  const Shape& from = w.shape(node.inputs[0]);
  Ints starts, ends, axes, steps;
  for (size_t i = 0; i < from.rank(); ++i) {
    const int64_t step = slice.step.empty() ? 1 : slice.step[i];
    if (step == 1 && slice.begin[i] == 0 && slice.size[i] == from[i]) continue;
    if (w.Varies(node.inputs[0], i)) w.Fail("slices the batch axis; export with a fixed batch");
    const int64_t end = slice.begin[i] + slice.size[i] * step;
    starts.push_back(slice.begin[i]);
    ends.push_back(end < 0 ? std::numeric_limits<int64_t>::min() + 1 : end);
    axes.push_back(static_cast<int64_t>(i));
    steps.push_back(step);
  }
  w.Put(Out(node), false,
        w.Node("Slice",
               {w.Plain(node.inputs[0]), w.Ints(starts, node.name + "/starts"),
                w.Ints(ends, node.name + "/ends"), w.Ints(axes, node.name + "/axes"),
                w.Ints(steps, node.name + "/steps")},
               node.name));
}

void WriteSplit(Writer& w, const Node& node) {
  const auto& split = As<ops::Split>(node);
  const std::string first =
      w.Node("Split", {w.Plain(node.inputs[0]), w.Ints(split.sizes, node.name + "/sizes")}, node.name);
  w.Put(Out(node), false, first);
  for (uint32_t i = 1; i < node.outputs.size(); ++i) w.Put(Out(node, i), false, w.Output(node.name));
  w.Attribute("axis", int64_t{split.axis});
}

void WriteBroadcastTo(Writer& w, const Node& node) {
  Ints sizes = w.Sizes(Out(node));
  // In Expand, size 1 keeps the input size.
  const size_t before = sizes.size() - w.shape(node.inputs[0]).rank();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != -1) continue;
    if (i < before || !w.Varies(node.inputs[0], i - before)) {
      w.Fail("broadcasts along the batch axis; export with a fixed batch");
    }
    sizes[i] = 1;
  }
  w.Put(Out(node), false,
        w.Node("Expand", {w.Plain(node.inputs[0]), w.Ints(sizes, node.name + "/shape")}, node.name));
}

void WritePad(Writer& w, const Node& node) {
  const auto& pad = As<ops::Pad>(node);
  Ints pads(pad.before);
  pads.insert(pads.end(), pad.after.begin(), pad.after.end());
  std::vector<std::string> inputs = {w.Plain(node.inputs[0]), w.Ints(pads, node.name + "/pads")};
  if (pad.mode == ops::PadMode::kConstant) inputs.push_back(w.Scalar(pad.value, node.name + "/value"));
  w.Put(Out(node), false, w.Node("Pad", inputs, node.name));
  w.Attribute("mode", std::string(fields::NameOf(pad.mode)));
}

void WriteGather(Writer& w, const Node& node) {
  w.Put(Out(node), false, w.Node("Gather", {w.Plain(node.inputs[0]), w.Plain(node.inputs[1])}, node.name));
  w.Attribute("axis", int64_t{node.op->kind() == "embedding" ? 0 : As<ops::Gather>(node).axis});
}

void ConvAttributes(Writer& w, const ops::Conv2dAttributes& a, const Shape& filters) {
  w.Attribute("kernel_shape", Ints{filters[2], filters[3]});
  w.Attribute("strides", Ints{a.strides.height, a.strides.width});
  w.Attribute("dilations", Ints{a.dilations.height, a.dilations.width});
  w.Attribute("pads", Ints{a.padding.top, a.padding.left, a.padding.bottom, a.padding.right});
  w.Attribute("group", a.groups);
}

void WriteConv(Writer& w, const Node& node) {
  if (!LeftToBias(w, node)) w.Put(Out(node), true, ConvAs(w, node, "", node.name));
}

void WritePool(Writer& w, const Node& node) {
  const bool max = node.op->kind() == "max_pool";
  if (max && w.Uses(Out(node, 1)) > 0) w.Fail("its indices cannot be written");
  const auto& a = As<ops::PoolOp>(node).attr;
  w.Put(Out(node), true, w.Node(max ? "MaxPool" : "AveragePool", {w.First(node.inputs[0])}, node.name));
  w.Attribute("kernel_shape", Ints{a.kernel.height, a.kernel.width});
  w.Attribute("strides", Ints{a.strides.height, a.strides.width});
  w.Attribute("pads", Ints{a.padding.top, a.padding.left, a.padding.bottom, a.padding.right});
  if (!max) w.Attribute("count_include_pad", int64_t{As<ops::AvgPool>(node).count_include_pad});
}

void WriteLayerNorm(Writer& w, const Node& node) {
  if (w.Uses(Out(node, 1)) + w.Uses(Out(node, 2)) > 0) w.Fail("its mean and deviation cannot be written");
  w.Put(Out(node), false,
        w.Node("LayerNormalization",
               {w.Plain(node.inputs[0]), w.Plain(node.inputs[1]), w.Plain(node.inputs[2])}, node.name));
  w.Attribute("axis", int64_t{-1});
  w.Attribute("epsilon", As<ops::LayerNorm>(node).epsilon);
}

}  // namespace

std::string ConvAs(Writer& w, const Node& node, const std::string& bias, const std::string& name) {
  std::vector<std::string> inputs = {w.First(node.inputs[0]), w.Plain(node.inputs[1])};
  if (!bias.empty()) inputs.push_back(bias);
  const Shape& filters = w.shape(node.inputs[1]);
  if (node.op->kind() == "conv2d") {
    const std::string made = w.Node("Conv", inputs, name);
    ConvAttributes(w, As<ops::Conv2d>(node).attr, filters);
    return made;
  }
  const auto& op = As<ops::Conv2dGradInput>(node);
  const std::string made = w.Node("ConvTranspose", inputs, name);
  ConvAttributes(w, op.attr, filters);
  const Shape& y = w.shape(node.inputs[0]);
  const auto missing = [](int64_t out, int64_t in, int64_t stride, int64_t kernel, int64_t dilation,
                          int64_t padding) {
    return out - ((in - 1) * stride + (kernel - 1) * dilation + 1 - padding);
  };
  const auto& a = op.attr;
  w.Attribute("output_padding", Ints{missing(op.input.height, y[1], a.strides.height, filters[2],
                                             a.dilations.height, a.padding.top + a.padding.bottom),
                                     missing(op.input.width, y[2], a.strides.width, filters[3],
                                             a.dilations.width, a.padding.left + a.padding.right)});
  return made;
}

void AddStructureWriters(WriterTable& table) {
  table.Add("avg_pool", WritePool);
  table.Add("broadcast_to", WriteBroadcastTo);
  table.Add("cast", WriteCast);
  table.Add("concat", WriteConcat);
  table.Add("conv2d", WriteConv);
  table.Add("conv2d_grad_input", WriteConv);
  table.Add("embedding", WriteGather);
  table.Add("gather", WriteGather);
  table.Add("layer_norm", WriteLayerNorm);
  table.Add("max_pool", WritePool);
  table.Add("pad", WritePad);
  table.Add("reshape", UnlessRecurrent<WriteReshape>);
  table.Add("slice", WriteSlice);
  table.Add("split", WriteSplit);
  table.Add("transpose", WriteTranspose);
}

}  // namespace leat::onnx
