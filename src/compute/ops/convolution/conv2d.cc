#include "compute/ops/convolution/conv2d.h"

#include <limits>
#include <stdexcept>

#include "compute/ops/matrix/matrix.h"
#include "compute/ops/shape/broadcast.h"

namespace leat::ops {

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

double Conv2dSizes::flops() const {
  return 2.0 * static_cast<double>(y.elements()) * static_cast<double>(w[1]) *
         static_cast<double>(window.kernel.height) * static_cast<double>(window.kernel.width);
}

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

std::vector<TensorType> Conv2d::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  CheckOperands(inputs);
  return {{DType::kF32, Conv2dSizesOf(attr, inputs[0].shape, inputs[1].shape).y}};
}

InputGrads Conv2d::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value x = node.inputs[0], w = node.inputs[1], dy = *output_grads[0];
  const Conv2dSizes sizes = Conv2dSizesOf(attr, graph.shape(x), graph.shape(w));
  return {graph.Make<Conv2dGradInput>({dy, w}, attr, sizes.input),
          graph.Make<Conv2dGradWeights>({x, dy}, attr, sizes.window.kernel)};
}

double Conv2d::flops(Types inputs, Types) const {
  return Conv2dSizesOf(attr, inputs[0].shape, inputs[1].shape).flops();
}

std::vector<TensorType> Conv2dGradInput::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  CheckOperands(inputs);
  return {{DType::kF32, Conv2dSizesOf(attr, inputs[0].shape, inputs[1].shape, input).x}};
}

InputGrads Conv2dGradInput::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value y = node.inputs[0], w = node.inputs[1], dx = *output_grads[0];
  return {graph.Make<Conv2d>({dx, w}, attr),
          graph.Make<Conv2dGradWeights>({dx, y}, attr, Pair{graph.shape(w)[2], graph.shape(w)[3]})};
}

std::string Conv2dGradInput::attributes() const {
  return Joined(ToString(attr), "input=" + ToString(input));
}

double Conv2dGradInput::flops(Types inputs, Types) const {
  return Conv2dSizesOf(attr, inputs[0].shape, inputs[1].shape, input).flops();
}

std::vector<TensorType> Conv2dGradWeights::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  CheckOperands(inputs);
  return {{DType::kF32, Conv2dSizesOfWeights(attr, inputs[0].shape, inputs[1].shape, kernel).w}};
}

InputGrads Conv2dGradWeights::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value x = node.inputs[0], y = node.inputs[1], dw = *output_grads[0];
  return {graph.Make<Conv2dGradInput>({y, dw}, attr, ImageSize(graph.shape(x))),
          graph.Make<Conv2d>({x, dw}, attr)};
}

std::string Conv2dGradWeights::attributes() const {
  return Joined(ToString(attr), "kernel=" + ToString(kernel));
}

double Conv2dGradWeights::flops(Types inputs, Types) const {
  return Conv2dSizesOfWeights(attr, inputs[0].shape, inputs[1].shape, kernel).flops();
}

std::vector<TensorType> Conv2dBias::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 3);
  CheckOperands(inputs);
  const Conv2dSizes sizes = Conv2dSizesOf(attr, inputs[0].shape, inputs[1].shape);
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
  const std::string text = ToString(attr);
  return text + (text.empty() ? "" : " ") + "activation=" + std::string(fields::NameOf(activation));
}

double Conv2dBias::flops(Types inputs, Types) const {
  return Conv2dSizesOf(attr, inputs[0].shape, inputs[1].shape).flops();
}

std::vector<TensorType> Conv2dGradWeightsBias::Infer(Types inputs) const {
  std::vector<TensorType> types = Conv2dGradWeights(attr, kernel).Infer(inputs);
  types.push_back({DType::kF32, {inputs[1].shape[3]}});
  return types;
}

InputGrads Conv2dGradWeightsBias::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  InputGrads grads(2);
  if (output_grads[0]) {
    grads = Conv2dGradWeights(attr, kernel).Gradient(graph, node, output_grads.first(1));
  }
  if (output_grads[1]) {
    const Value spread = StretchToShape(graph, *output_grads[1], graph.shape(node.inputs[1]));
    grads[1] = grads[1] ? graph.Make<AddN>({*grads[1], spread}) : spread;
  }
  return grads;
}

std::string Conv2dGradWeightsBias::attributes() const {
  return Conv2dGradWeights(attr, kernel).attributes();
}

double Conv2dGradWeightsBias::flops(Types inputs, Types outputs) const {
  return Conv2dGradWeights(attr, kernel).flops(inputs, outputs);
}

}  // namespace leat::ops
