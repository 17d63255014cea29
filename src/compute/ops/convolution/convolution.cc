#include "compute/ops/convolution/convolution.h"

#include <limits>
#include <stdexcept>

#include "compute/ops/matrix/matrix.h"
#include "compute/ops/shape/shape.h"

namespace leat::ops {

namespace {

// Attributes up to this, with sizes of up to 2^40, cannot make a sum or product here overflow.
constexpr int64_t kMax = std::numeric_limits<int32_t>::max();

std::string PaddingText(const Padding& p) {
  return std::to_string(p.top) + "," + std::to_string(p.left) + "," + std::to_string(p.bottom) + "," +
         std::to_string(p.right);
}

void CheckPair(std::string_view what, const Pair& pair) {
  for (const int64_t size : {pair.height, pair.width}) {
    if (size >= 1 && size <= kMax) continue;
    throw std::invalid_argument(std::string(what) + " " + ToString(pair) + ": must be between 1 and " +
                                std::to_string(kMax));
  }
}

void CheckPadding(const Padding& p) {
  for (const int64_t size : {p.top, p.left, p.bottom, p.right}) {
    if (size >= 0 && size <= kMax) continue;
    throw std::invalid_argument("padding " + PaddingText(p) + ": must be between 0 and " +
                                std::to_string(kMax));
  }
}

}  // namespace

std::string ToString(const Pair& pair) {
  return std::to_string(pair.height) + "x" + std::to_string(pair.width);
}

Pair Window::Extent() const {
  return {(kernel.height - 1) * dilations.height + 1, (kernel.width - 1) * dilations.width + 1};
}

Pair CountWindows(const Window& window, const Pair& image) {
  CheckPair("kernel", window.kernel);
  CheckPair("strides", window.strides);
  CheckPair("dilations", window.dilations);
  const Padding& p = window.padding;
  CheckPadding(p);
  const Pair extent = window.Extent();
  const int64_t height = image.height + p.top + p.bottom, width = image.width + p.left + p.right;
  if (extent.height > height || extent.width > width) {
    std::string text = "kernel " + ToString(window.kernel);
    if (extent != window.kernel) text += " dilated to " + ToString(extent);
    text += " is larger than input " + ToString(image);
    throw std::invalid_argument(p == Padding{} ? text : text + " with padding " + PaddingText(p));
  }
  return {(height - extent.height) / window.strides.height + 1,
          (width - extent.width) / window.strides.width + 1};
}

void CheckImages(std::string_view what, const Shape& shape) {
  if (shape.rank() == 4) return;
  throw std::invalid_argument(std::string(what) + shape.ToString() +
                              ": must be [batch, height, width, channels]");
}

Pair ImageSize(const Shape& shape) {
  return {shape[1], shape[2]};
}

std::string WindowAttributes(const Window& window) {
  std::string text;
  if (window.strides != Pair{}) text += " strides=" + ToString(window.strides);
  if (window.dilations != Pair{}) text += " dilations=" + ToString(window.dilations);
  if (window.padding != Padding{}) text += " padding=" + PaddingText(window.padding);
  return text;
}

namespace {

void CheckWeights(const Shape& w) {
  if (w.rank() == 4) return;
  throw std::invalid_argument("w" + w.ToString() +
                              ": must be [filters, channels per group, kernel height, kernel width]");
}

// Checks that filters and channels are divisible into `groups` groups.
void CheckGroups(int64_t groups, int64_t filters, int64_t channels) {
  if (groups < 1 || groups > std::numeric_limits<int32_t>::max()) {
    throw std::invalid_argument("groups " + std::to_string(groups) + ": must be at least 1");
  }
  if (filters % groups == 0 && channels % groups == 0) return;
  throw std::invalid_argument(std::to_string(channels) + " channels and " + std::to_string(filters) +
                              " filters cannot be divided into " + std::to_string(groups) + " groups");
}

void CheckOutputs(const Shape& y, const Pair& output, const Pair& input) {
  if (ImageSize(y) == output) return;
  throw std::invalid_argument("y" + y.ToString() + ": must be " + ToString(output) + " for input " +
                              ToString(input));
}

Window ConvolutionWindow(const Conv2dAttributes& a, const Pair& kernel) {
  return {.kernel = kernel, .strides = a.strides, .dilations = a.dilations, .padding = a.padding};
}

std::string Joined(const std::string& a, const std::string& b) {
  return a.empty() ? b : a + " " + b;
}

}  // namespace

Conv2dSizes Conv2dSizesOf(const Conv2dAttributes& a, const Shape& x, const Shape& w) {
  CheckImages("x", x);
  CheckWeights(w);
  CheckGroups(a.groups, w[0], x[3]);
  if (x[3] / a.groups != w[1]) {
    throw std::invalid_argument("x" + x.ToString() + " and w" + w.ToString() + ": each filter must have " +
                                std::to_string(x[3] / a.groups) + " channels (" + std::to_string(x[3]) +
                                " channels / " + std::to_string(a.groups) + " groups), not " +
                                std::to_string(w[1]));
  }
  const Window window = ConvolutionWindow(a, {w[2], w[3]});
  const Pair input = ImageSize(x), output = CountWindows(window, input);
  return {.batch = x[0],
          .channels = x[3],
          .filters = w[0],
          .groups = a.groups,
          .input = input,
          .output = output,
          .window = window,
          .x = x,
          .w = w,
          .y = {x[0], output.height, output.width, w[0]}};
}

Conv2dSizes Conv2dSizesOf(const Conv2dAttributes& a, const Shape& y, const Shape& w, const Pair& input) {
  CheckImages("y", y);
  CheckWeights(w);
  CheckGroups(a.groups, w[0], 0);
  if (y[3] != w[0]) {
    throw std::invalid_argument("y" + y.ToString() + " and w" + w.ToString() + ": " + std::to_string(y[3]) +
                                " channels do not match " + std::to_string(w[0]) + " filters");
  }
  // Shape checks the product for overflow.
  const int64_t channels = Shape{w[1], a.groups}.elements();
  const Conv2dSizes sizes = Conv2dSizesOf(a, Shape{y[0], input.height, input.width, channels}, w);
  CheckOutputs(y, sizes.output, input);
  return sizes;
}

Conv2dSizes Conv2dSizesOfWeights(const Conv2dAttributes& a, const Shape& x, const Shape& y,
                                 const Pair& kernel) {
  CheckImages("x", x);
  CheckImages("y", y);
  CheckGroups(a.groups, y[3], x[3]);
  if (x[0] != y[0]) {
    throw std::invalid_argument("x" + x.ToString() + " and y" + y.ToString() + ": batches of " +
                                std::to_string(x[0]) + " and " + std::to_string(y[0]) + " differ");
  }
  const Conv2dSizes sizes = Conv2dSizesOf(a, x, Shape{y[3], x[3] / a.groups, kernel.height, kernel.width});
  CheckOutputs(y, sizes.output, sizes.input);
  return sizes;
}

std::string ToString(const Conv2dAttributes& a) {
  std::string text = WindowAttributes(ConvolutionWindow(a, {}));
  if (a.groups != 1) text += " groups=" + std::to_string(a.groups);
  return text.empty() ? text : text.substr(1);
}

double ConvolutionOp::flops(Types inputs, Types) const {
  const Conv2dSizes s = Sizes(inputs);
  return 2.0 * static_cast<double>(s.y.elements()) * static_cast<double>(s.w[1]) *
         static_cast<double>(s.window.kernel.height) * static_cast<double>(s.window.kernel.width);
}

Conv2dSizes ConvolutionOp::Check(Types inputs, size_t count) const {
  graph::CheckInputCount(inputs, count);
  CheckOperands(inputs);
  return Sizes(inputs);
}

Conv2dSizes ForwardConvolution::Sizes(Types inputs) const {
  return Conv2dSizesOf(attr, inputs[0].shape, inputs[1].shape);
}

std::vector<TensorType> Conv2d::Infer(Types inputs) const {
  return {{DType::kF32, Check(inputs).y}};
}

InputGrads Conv2d::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value x = node.inputs[0], w = node.inputs[1], dy = *output_grads[0];
  const Conv2dSizes sizes = Conv2dSizesOf(attr, graph.shape(x), graph.shape(w));
  return {graph.Make<Conv2dGradInput>({dy, w}, attr, sizes.input),
          graph.Make<Conv2dGradWeights>({x, dy}, attr, sizes.window.kernel)};
}

Conv2dSizes Conv2dGradInput::Sizes(Types inputs) const {
  return Conv2dSizesOf(attr, inputs[0].shape, inputs[1].shape, input);
}

std::vector<TensorType> Conv2dGradInput::Infer(Types inputs) const {
  return {{DType::kF32, Check(inputs).x}};
}

InputGrads Conv2dGradInput::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value y = node.inputs[0], w = node.inputs[1], dx = *output_grads[0];
  return {graph.Make<Conv2d>({dx, w}, attr),
          graph.Make<Conv2dGradWeights>({dx, y}, attr, Pair{graph.shape(w)[2], graph.shape(w)[3]})};
}

std::string Conv2dGradInput::attributes() const {
  return Joined(ToString(attr), "input=" + ToString(input));
}

Conv2dSizes WeightsConvolution::Sizes(Types inputs) const {
  return Conv2dSizesOfWeights(attr, inputs[0].shape, inputs[1].shape, kernel);
}

std::vector<TensorType> WeightsConvolution::Infer(Types inputs) const {
  return {{DType::kF32, Check(inputs).w}};
}

InputGrads WeightsConvolution::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value x = node.inputs[0], y = node.inputs[1], dw = *output_grads[0];
  return {graph.Make<Conv2dGradInput>({y, dw}, attr, ImageSize(graph.shape(x))),
          graph.Make<Conv2d>({x, dw}, attr)};
}

std::string WeightsConvolution::attributes() const {
  return Joined(ToString(attr), "kernel=" + ToString(kernel));
}

std::vector<TensorType> Conv2dBias::Infer(Types inputs) const {
  const Conv2dSizes sizes = Check(inputs, 3);
  const Shape bias{sizes.filters};
  if (inputs[2].shape != bias) {
    throw std::invalid_argument("bias " + inputs[2].shape.ToString() + " must be " + bias.ToString());
  }
  return {{DType::kF32, sizes.y}};
}

InputGrads Conv2dBias::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value x = node.inputs[0], w = node.inputs[1];
  const Value from = GradientNeedsInput(activation)
                         ? graph.Make<Conv2dBias>(node.inputs, attr, Activation::kNone)
                         : Value{node.index, 0};
  const Value dz = ActivationGrad(graph, activation, from, *output_grads[0]);
  const Conv2dSizes sizes = Conv2dSizesOf(attr, graph.shape(x), graph.shape(w));
  const Value dx = graph.Make<Conv2dGradInput>({dz, w}, attr, sizes.input);
  const Value dw = graph.Make<Conv2dGradWeightsBias>({x, dz}, attr, sizes.window.kernel);
  return {dx, dw, Value{dw.node, 1}};
}

std::string Conv2dBias::attributes() const {
  return Joined(ToString(attr), "activation=" + std::string(fields::NameOf(activation)));
}

std::vector<TensorType> Conv2dGradWeightsBias::Infer(Types inputs) const {
  std::vector<TensorType> types = WeightsConvolution::Infer(inputs);
  types.push_back({DType::kF32, {inputs[1].shape[3]}});
  return types;
}

InputGrads Conv2dGradWeightsBias::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  InputGrads grads(2);
  if (output_grads[0]) {
    grads = WeightsConvolution::Gradient(graph, node, output_grads.first(1));
  }
  if (output_grads[1]) {
    const Value spread = StretchToShape(graph, *output_grads[1], graph.shape(node.inputs[1]));
    grads[1] = grads[1] ? graph.Make<AddN>({*grads[1], spread}) : spread;
  }
  return grads;
}

namespace {

Window PoolWindow(const PoolAttributes& a) {
  return {.kernel = a.kernel, .strides = a.strides, .dilations = {}, .padding = a.padding};
}

// Arithmetic operations of one pass over all windows.
double PoolFlops(const PoolAttributes& a, const Shape& y) {
  return static_cast<double>(y.elements()) * static_cast<double>(a.kernel.height) *
         static_cast<double>(a.kernel.width);
}

void CheckIndex(const PoolAttributes& attr, const TensorType& index, const Shape& y) {
  const TensorType expected{WindowIndexType(attr.kernel), y};
  if (index == expected) return;
  throw std::invalid_argument("index is " + index.ToString() + "; must be " + expected.ToString());
}

}  // namespace

Shape PooledShape(const PoolAttributes& a, const Shape& x) {
  CheckImages("x", x);
  const Pair input = ImageSize(x), output = CountWindows(PoolWindow(a), input);
  const Padding& p = a.padding;
  if (p.top >= a.kernel.height || p.bottom >= a.kernel.height || p.left >= a.kernel.width ||
      p.right >= a.kernel.width) {
    throw std::invalid_argument("kernel " + ToString(a.kernel) + " with" + WindowAttributes(PoolWindow(a)) +
                                ": the padding must be smaller than the kernel");
  }
  if (input.height == 0 || input.width == 0) {
    throw std::invalid_argument("x" + x.ToString() + ": the image is empty");
  }
  // Indices of elements in a window have 32 bits.
  if (a.kernel.height > std::numeric_limits<int32_t>::max() / a.kernel.width) {
    throw std::invalid_argument("kernel " + ToString(a.kernel) + " has more than 2^31 elements");
  }
  return {x[0], output.height, output.width, x[3]};
}

Shape UnpooledShape(const PoolAttributes& a, const Shape& y, const Pair& input) {
  CheckImages("y", y);
  const Shape x{y[0], input.height, input.width, y[3]};
  const Shape pooled = PooledShape(a, x);
  if (pooled == y) return x;
  throw std::invalid_argument("y" + y.ToString() + ": must be " + pooled.ToString() + " for input " +
                              ToString(input));
}

std::string ToString(const PoolAttributes& a) {
  return "kernel=" + ToString(a.kernel) + WindowAttributes(PoolWindow(a));
}

DType WindowIndexType(const Pair& kernel) {
  return kernel.height <= 256 / kernel.width ? DType::kU8 : DType::kI32;
}

double PoolOp::flops(Types, Types outputs) const {
  return PoolFlops(attr, outputs[0].shape);
}

double UnpoolOp::flops(Types inputs, Types) const {
  return PoolFlops(attr, inputs[0].shape);
}

std::vector<TensorType> MaxPool::Infer(Types inputs) const {
  graph::CheckF32(inputs, 1);
  const Shape y = PooledShape(attr, inputs[0].shape);
  return {{DType::kF32, y}, {WindowIndexType(attr.kernel), y}};
}

InputGrads MaxPool::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  if (!output_grads[0]) return {std::nullopt};
  return {graph.Make<MaxPoolGrad>({*output_grads[0], Value{node.index, 1}}, attr,
                                  ImageSize(graph.shape(node.inputs[0])))};
}

std::vector<TensorType> MaxPoolGrad::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  graph::CheckF32(inputs.first(1));
  const Shape x = UnpooledShape(attr, inputs[0].shape, input);
  CheckIndex(attr, inputs[1], inputs[0].shape);
  return {{DType::kF32, x}};
}

InputGrads MaxPoolGrad::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<MaxPoolGather>({*output_grads[0], node.inputs[1]}, attr), std::nullopt};
}

std::vector<TensorType> MaxPoolGather::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  graph::CheckF32(inputs.first(1));
  const Shape y = PooledShape(attr, inputs[0].shape);
  CheckIndex(attr, inputs[1], y);
  return {{DType::kF32, y}};
}

InputGrads MaxPoolGather::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<MaxPoolGrad>({*output_grads[0], node.inputs[1]}, attr,
                                  ImageSize(graph.shape(node.inputs[0]))),
          std::nullopt};
}

std::vector<TensorType> AvgPool::Infer(Types inputs) const {
  graph::CheckF32(inputs, 1);
  return {{DType::kF32, PooledShape(attr, inputs[0].shape)}};
}

InputGrads AvgPool::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<AvgPoolGrad>({*output_grads[0]}, attr, count_include_pad,
                                  ImageSize(graph.shape(node.inputs[0])))};
}

std::string AvgPool::attributes() const {
  return ToString(attr) + (count_include_pad ? " count_include_pad=true" : "");
}

std::vector<TensorType> AvgPoolGrad::Infer(Types inputs) const {
  graph::CheckF32(inputs, 1);
  return {{DType::kF32, UnpooledShape(attr, inputs[0].shape, input)}};
}

InputGrads AvgPoolGrad::Gradient(Graph& graph, const Node&, OutputGrads output_grads) const {
  return {graph.Make<AvgPool>({*output_grads[0]}, attr, count_include_pad)};
}

std::string AvgPoolGrad::attributes() const {
  return AvgPool(attr, count_include_pad).attributes() + " input=" + ToString(input);
}

}  // namespace leat::ops
