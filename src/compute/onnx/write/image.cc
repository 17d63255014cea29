// Writers of convolutions, pooling and normalization.
#include "compute/onnx/write/ops.h"
#include "compute/ops/ops.h"

namespace leat::onnx {
namespace {

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
  const auto& a = max ? As<ops::MaxPool>(node).attr : As<ops::AvgPool>(node).attr;
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

void AddImageWriters(WriterTable& table) {
  table.Add("avg_pool", WritePool);
  table.Add("conv2d", WriteConv);
  table.Add("conv2d_grad_input", WriteConv);
  table.Add("layer_norm", WriteLayerNorm);
  table.Add("max_pool", WritePool);
}

}  // namespace leat::onnx
