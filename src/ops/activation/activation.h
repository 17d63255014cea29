// Activations, element by element.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// max(x, 0). Its gradient needs only the output.
class Relu final : public UnaryOp {
 public:
  std::string_view kind() const override { return "relu"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Inputs y, dy. dx = dy where y > 0, else 0.
class ReluGrad final : public SameShapeOp {
 public:
  std::string_view kind() const override { return "relu_grad"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// x if x > 0, else slope · x.
class LeakyRelu final : public UnaryOp {
 public:
  explicit LeakyRelu(float s = 0.01f) : slope(s) {}
  std::string_view kind() const override { return "leaky_relu"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "slope=" + graph::ToString(slope); }

  const float slope;
};

// Inputs x, dy. dx = dy where x > 0, else slope · dy.
class LeakyReluGrad final : public SameShapeOp {
 public:
  explicit LeakyReluGrad(float s) : slope(s) {}
  std::string_view kind() const override { return "leaky_relu_grad"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "slope=" + graph::ToString(slope); }

  const float slope;
};

// x if x > 0, else alpha (e^x - 1) (Clevert et al. 2015).
class Elu final : public UnaryOp {
 public:
  explicit Elu(float a = 1) : alpha(a) {}
  std::string_view kind() const override { return "elu"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "alpha=" + graph::ToString(alpha); }

  const float alpha;
};

// Inputs x, dy. dx = dy where x > 0, else alpha e^x dy.
class EluGrad final : public SameShapeOp {
 public:
  explicit EluGrad(float a) : alpha(a) {}
  std::string_view kind() const override { return "elu_grad"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "alpha=" + graph::ToString(alpha); }

  const float alpha;
};

// x Φ(x), where Φ is the standard normal distribution function (Hendrycks and Gimpel 2016). With
// `approximate`, Φ(x) is ½ (1 + tanh(√(2/π) (x + 0.044715 x³))).
class Gelu final : public UnaryOp {
 public:
  explicit Gelu(bool a = false) : approximate(a) {}
  std::string_view kind() const override { return "gelu"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return approximate ? "approximate=true" : ""; }

  const bool approximate;
};

// Inputs x, dy. dx = dy (Φ(x) + x Φ'(x)).
class GeluGrad final : public SameShapeOp {
 public:
  explicit GeluGrad(bool a) : approximate(a) {}
  std::string_view kind() const override { return "gelu_grad"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return approximate ? "approximate=true" : ""; }

  const bool approximate;
};

// x sigmoid(x), also called swish.
class Silu final : public UnaryOp {
 public:
  std::string_view kind() const override { return "silu"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Inputs x, dy. With s = sigmoid(x): dx = dy s (1 + x (1 - s)).
class SiluGrad final : public SameShapeOp {
 public:
  std::string_view kind() const override { return "silu_grad"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// 1 / (1 + e^-x). Its gradient needs only the output.
class Sigmoid final : public UnaryOp {
 public:
  std::string_view kind() const override { return "sigmoid"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Inputs y, dy. dx = dy y (1 - y).
class SigmoidGrad final : public SameShapeOp {
 public:
  std::string_view kind() const override { return "sigmoid_grad"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// The hyperbolic tangent. Its gradient needs only the output.
class Tanh final : public UnaryOp {
 public:
  std::string_view kind() const override { return "tanh"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Inputs y, dy. dx = dy (1 - y²).
class TanhGrad final : public SameShapeOp {
 public:
  std::string_view kind() const override { return "tanh_grad"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// log(1 + e^x), a smooth relu.
class Softplus final : public UnaryOp {
 public:
  std::string_view kind() const override { return "softplus"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// x clamped to [low, high]. NaN stays NaN. Infer throws std::invalid_argument unless low <= high.
class Clip final : public UnaryOp {
 public:
  Clip(float l, float h) : low(l), high(h) {}
  std::string_view kind() const override { return "clip"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override {
    return "low=" + graph::ToString(low) + " high=" + graph::ToString(high);
  }

  const float low;
  const float high;
};

// Inputs x, dy. dx = dy where low < x < high, else 0; none flows at a bound, as in relu.
class ClipGrad final : public SameShapeOp {
 public:
  ClipGrad(float l, float h) : low(l), high(h) {}
  std::string_view kind() const override { return "clip_grad"; }
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
