// Activations, element by element.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// max(x, 0). Its gradient needs only the output.
struct Relu final : Named<UnaryOp, "relu"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Inputs y, dy. dx = dy where y > 0, else 0.
struct ReluGrad final : Named<SameShapeOp, "relu_grad"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// x if x > 0, else slope · x.
struct LeakyRelu final : Named<UnaryOp, "leaky_relu"> {
  explicit LeakyRelu(float s = 0.01f) : slope(s) {}
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "slope=" + graph::ToString(slope); }

  const float slope;
};

// Inputs x, dy. dx = dy where x > 0, else slope · dy.
struct LeakyReluGrad final : Named<SameShapeOp, "leaky_relu_grad"> {
  explicit LeakyReluGrad(float s) : slope(s) {}
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "slope=" + graph::ToString(slope); }

  const float slope;
};

// x if x > 0, else alpha (e^x - 1) (Clevert et al. 2015).
struct Elu final : Named<UnaryOp, "elu"> {
  explicit Elu(float a = 1) : alpha(a) {}
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "alpha=" + graph::ToString(alpha); }

  const float alpha;
};

// Inputs x, dy. dx = dy where x > 0, else alpha e^x dy.
struct EluGrad final : Named<SameShapeOp, "elu_grad"> {
  explicit EluGrad(float a) : alpha(a) {}
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "alpha=" + graph::ToString(alpha); }

  const float alpha;
};

// x Φ(x), where Φ is the standard normal distribution function (Hendrycks and Gimpel 2016). With
// `approximate`, Φ(x) is ½ (1 + tanh(√(2/π) (x + 0.044715 x³))).
struct Gelu final : Named<UnaryOp, "gelu"> {
  explicit Gelu(bool a = false) : approximate(a) {}
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return approximate ? "approximate=true" : ""; }

  const bool approximate;
};

// Inputs x, dy. dx = dy (Φ(x) + x Φ'(x)).
struct GeluGrad final : Named<SameShapeOp, "gelu_grad"> {
  explicit GeluGrad(bool a) : approximate(a) {}
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return approximate ? "approximate=true" : ""; }

  const bool approximate;
};

// x sigmoid(x), also called swish.
struct Silu final : Named<UnaryOp, "silu"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Inputs x, dy. With s = sigmoid(x): dx = dy s (1 + x (1 - s)).
struct SiluGrad final : Named<SameShapeOp, "silu_grad"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// 1 / (1 + e^-x). Its gradient needs only the output.
struct Sigmoid final : Named<UnaryOp, "sigmoid"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Inputs y, dy. dx = dy y (1 - y).
struct SigmoidGrad final : Named<SameShapeOp, "sigmoid_grad"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// The hyperbolic tangent. Its gradient needs only the output.
struct Tanh final : Named<UnaryOp, "tanh"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Inputs y, dy. dx = dy (1 - y²).
struct TanhGrad final : Named<SameShapeOp, "tanh_grad"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// log(1 + e^x), a smooth relu.
struct Softplus final : Named<UnaryOp, "softplus"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// x clamped to [low, high]. NaN stays NaN. Infer throws std::invalid_argument unless low <= high.
struct Clip final : Named<UnaryOp, "clip"> {
  Clip(float l, float h) : low(l), high(h) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override {
    return "low=" + graph::ToString(low) + " high=" + graph::ToString(high);
  }

  const float low;
  const float high;
};

// Inputs x, dy. dx = dy where low < x < high, else 0; none flows at a bound, as in relu.
struct ClipGrad final : Named<SameShapeOp, "clip_grad"> {
  ClipGrad(float l, float h) : low(l), high(h) {}
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override {
    return "low=" + graph::ToString(low) + " high=" + graph::ToString(high);
  }

  const float low;
  const float high;
};

// alpha · x + beta clamped to [0, 1]: a piecewise linear sigmoid.
Value HardSigmoid(Graph& graph, Value x, float alpha = 0.2f, float beta = 0.5f);
// x HardSigmoid(x, 1/6, 1/2) (Howard et al. 2019).
Value HardSwish(Graph& graph, Value x);

}  // namespace leat::ops
