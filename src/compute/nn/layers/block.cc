// Layers that keep the shape of a row: those that networks are stacked of.
#include "base/rng.h"
#include "compute/graph/builtin.h"
#include "compute/nn/layers/kinds.h"
#include "compute/ops/ops.h"

namespace leat::nn {
namespace {

// - attention: {heads: 4, causal: false, units: 128}
//     multi-head self-attention over a sequence [time, channels]: y = out(attention(q, k, v)), where q, k and
//     v are linear in x. `units`: channels of each of q, k and v over all heads; default: the channels of x.
//     Steps after the end of a sequence are masked, and their attention output is 0.
class AttentionLayer final : public Layer {
 public:
  explicit AttentionLayer(const LayerRequest& request) : Layer(request), row_(request.inputs) {
    const Config& settings = request.settings;
    AllowSettings(settings, {"heads", "causal", "units"});
    if (row_.rank() != 2 || row_[1] == 0) {
      settings.Fail("layer " + request.name + ": attention needs rows of [time, channels], not " +
                    row_.ToString());
    }
    Elements(request);
    channels_ = static_cast<uint32_t>(row_[1]);
    units_ = settings.Has("units") ? ReadUnits(settings) : channels_;
    heads_ = settings.Integer("heads", 1, 1, 1 << 16);
    causal_ = settings.Bool("causal", false);
    if (units_ % heads_ != 0) {
      settings.Fail("layer " + request.name + ": " + std::to_string(units_) +
                    " units cannot be divided into " + std::to_string(heads_) + " heads");
    }
  }

  Shape outputs() const override { return row_; }

  std::vector<VariableSpec> variables() const override {
    const uint32_t three = 3 * units_;
    return {{name() + "/qkv/weight", Shape{channels_, three}, Glorot(channels_, three)},
            {name() + "/qkv/bias", Shape{three}, InitSpec{}},
            {name() + "/out/weight", Shape{units_, channels_}, Glorot(units_, channels_)},
            {name() + "/out/bias", Shape{channels_}, InitSpec{}}};
  }

  Flow Apply(Graph& graph, const Flow& in, std::span<const Value> variables, StepContext&) const override {
    const int64_t batch = graph.shape(in.x)[0], time = row_[0];
    const Value x = graph.Make<ops::Reshape>({in.x}, Shape{batch * time, channels_});
    const Value product = graph.Make<ops::MatMul>({x, variables[0]});
    const Value qkv = graph.Make<ops::BiasAdd>({product, variables[1]});
    std::vector<Value> inputs = {graph.Make<ops::Reshape>({qkv}, Shape{batch, time, 3 * int64_t{units_}})};
    if (in.lengths) inputs.push_back(*in.lengths);
    const ops::AttentionSettings settings{heads_, causal_, in.lengths.has_value()};
    const Value seen = graph.Make<ops::Attention>(inputs, settings);
    const Value rows = graph.Make<ops::Reshape>({seen}, Shape{batch * time, units_});
    const Value out = graph.Make<ops::BiasAdd>({graph.Make<ops::MatMul>({rows, variables[2]}), variables[3]});
    return {graph.Make<ops::Reshape>({out}, graph.shape(in.x)), in.lengths};
  }

 private:
  static InitSpec Glorot(uint32_t inputs, uint32_t outputs) {
    return {.kind = InitKind::kGlorotUniform, .fan_in = inputs, .fan_out = outputs};
  }

  Shape row_;
  uint32_t channels_ = 0, units_ = 0;
  int64_t heads_ = 1;
  bool causal_ = false;
};

// - layer_norm: {epsilon: 0.00001}
//     normalises the last axis of each row to mean 0 and variance 1, then applies a learnt scale and offset.
// - batch_norm: {momentum: 0.9, epsilon: 0.00001}
//     normalises each channel (the last axis) over the batch. In training, each step updates the running mean
//     and variance: running = momentum · running + (1 - momentum) · batch. Scoring uses the running values,
//     and so does training if they are frozen.

using optim::VariableRole;

constexpr double kEpsilon = 1e-5;

float ReadEpsilon(const Config& settings) {
  return static_cast<float>(settings.Number("epsilon", kEpsilon, 1e-12, 1));
}

// Size of the last axis of a row.
int64_t LastOf(const LayerRequest& request) {
  Elements(request);
  const Shape& row = request.inputs;
  return row.rank() == 0 ? 1 : row[row.rank() - 1];
}

// x[batch] as x[batch, 1]: a row of one number.
Value WithLastAxis(Graph& graph, Value x, const Shape& row) {
  if (row.rank() > 0) return x;
  return graph.Make<ops::Reshape>({x}, Shape{graph.shape(x)[0], 1});
}

InitSpec Ones() {
  return {.kind = InitKind::kConstant, .value = 1};
}

class LayerNormLayer final : public Layer {
 public:
  explicit LayerNormLayer(const LayerRequest& request)
      : Layer(request), row_(request.inputs), size_(LastOf(request)) {
    AllowSettings(request.settings, {"epsilon"});
    epsilon_ = ReadEpsilon(request.settings);
  }

  Shape outputs() const override { return row_; }
  std::vector<VariableSpec> variables() const override {
    return {{name() + "/scale", Shape{size_}, Ones()}, {name() + "/offset", Shape{size_}, InitSpec{}}};
  }
  Flow Apply(Graph& graph, const Flow& in, std::span<const Value> variables, StepContext&) const override {
    const Value x = WithLastAxis(graph, in.x, row_);
    const Value y = graph.Make<ops::LayerNorm>({x, variables[0], variables[1]}, epsilon_);
    return {graph.Make<ops::Reshape>({y}, graph.shape(in.x)), in.lengths};
  }

 private:
  Shape row_;
  int64_t size_;
  float epsilon_ = 0;
};

class BatchNormLayer final : public Layer {
 public:
  explicit BatchNormLayer(const LayerRequest& request)
      : Layer(request), row_(request.inputs), channels_(LastOf(request)) {
    AllowSettings(request.settings, {"momentum", "epsilon"});
    momentum_ = static_cast<float>(request.settings.Number("momentum", 0.9, 0, 1));
    epsilon_ = ReadEpsilon(request.settings);
  }

  Shape outputs() const override { return row_; }
  std::vector<VariableSpec> variables() const override {
    const Shape each{channels_};
    return {{name() + "/scale", each, Ones()},
            {name() + "/offset", each, InitSpec{}},
            {name() + "/mean", each, InitSpec{}, VariableRole::kStatistic},
            {name() + "/variance", each, Ones(), VariableRole::kStatistic}};
  }

  Flow Apply(Graph& graph, const Flow& in, std::span<const Value> variables,
             StepContext& step) const override {
    const Value x = WithLastAxis(graph, in.x, row_);
    const bool moves = step.training && graph::IsFeed(*graph.node(variables[2]).op);
    const Value y = moves ? Train(graph, x, variables, step) : Score(graph, x, variables);
    return {graph.Make<ops::Reshape>({y}, graph.shape(in.x)), in.lengths};
  }

 private:
  Value Train(Graph& graph, Value x, std::span<const Value> variables, StepContext& step) const {
    const Value y = graph.Make<ops::BatchNorm>({x, variables[0], variables[1], step.weights}, epsilon_);
    // A batch that is all padding has no mean and must not change the running values.
    const Value count = graph.Make<ops::ReduceSum>({graph.Make<ops::Relu>({step.weights})});
    const Value share = graph.Make<ops::Scale>({graph.Make<ops::Sign>({count})}, 1 - momentum_);
    for (uint32_t i = 0; i < 2; ++i) {
      const Value distance = graph.Make<ops::Sub>({variables[2 + i], Value{y.node, 1 + i}});
      step.statistics.emplace_back(variables[2 + i], graph.Make<ops::Mul>({distance, share}));
    }
    return y;
  }

  Value Score(Graph& graph, Value x, std::span<const Value> variables) const {
    const Value deviation = graph.Make<ops::Sqrt>({graph.Make<ops::Scale>({variables[3]}, 1.0f, epsilon_)});
    const Value factor = graph.Make<ops::Div>({variables[0], deviation});
    const Value offset = graph.Make<ops::Sub>({variables[1], graph.Make<ops::Mul>({variables[2], factor})});
    return graph.Make<ops::Add>({graph.Make<ops::Mul>({x, factor}), offset});
  }

  Shape row_;
  int64_t channels_;
  float momentum_ = 0, epsilon_ = 0;
};

// - dropout: {rate: 0.1}
//     in training, sets a fraction `rate` of the elements to 0 and scales up the others. The choice is a
//     function of the step's random seed and the layer's name. No effect in scoring.
class DropoutLayer final : public Layer {
 public:
  explicit DropoutLayer(const LayerRequest& request) : Layer(request), row_(request.inputs) {
    AllowSettings(request.settings, {"rate"});
    request.settings.At("rate");  // fails if it is missing
    rate_ = static_cast<float>(request.settings.Number("rate", 0, 0, 0.99));
  }

  Shape outputs() const override { return row_; }
  bool keeps_values() const override { return true; }
  Flow Apply(Graph& graph, const Flow& in, std::span<const Value>, StepContext& step) const override {
    if (!step.training || rate_ == 0) return in;
    return {graph.Make<ops::Dropout>({in.x, step.random_seed}, rate_, HashName(name())), in.lengths};
  }

 private:
  Shape row_;
  float rate_ = 0;
};

// - relu, sigmoid, tanh, silu, softplus, softmax (over the last axis)
// - gelu: {approximate: false}
//     activations as separate layers; dense: {activation: ...} is equivalent.
class ActivationLayer final : public Layer {
 public:
  ActivationLayer(const LayerRequest& request, std::shared_ptr<const graph::Op> op)
      : Layer(request), row_(request.inputs), op_(std::move(op)) {}

  Shape outputs() const override { return row_; }
  bool has_activation() const override { return true; }
  Flow Apply(Graph& graph, const Flow& in, std::span<const Value>, StepContext&) const override {
    return {graph.Add(op_, {in.x}), in.lengths};
  }

 private:
  Shape row_;
  std::shared_ptr<const graph::Op> op_;
};

template <class Op>
std::shared_ptr<const Layer> MakePlain(const LayerRequest& request) {
  AllowSettings(request.settings, {});
  return std::make_shared<ActivationLayer>(request, std::make_shared<Op>());
}

std::shared_ptr<const Layer> MakeSoftmax(const LayerRequest& request) {
  const Shape& row = request.inputs;
  if (row.rank() == 0 || row.elements() == 0) {
    request.settings.Fail("layer " + request.name + ": row shape " + row.ToString() +
                          " must have at least one element along its last axis");
  }
  return MakePlain<ops::Softmax>(request);
}

std::shared_ptr<const Layer> MakeGelu(const LayerRequest& request) {
  AllowSettings(request.settings, {"approximate"});
  const bool approximate = request.settings.Bool("approximate", false);
  return std::make_shared<ActivationLayer>(request, std::make_shared<ops::Gelu>(approximate));
}

// - position
//     learnt position embedding: adds one trained vector per step to a sequence [time, channels].
class PositionLayer final : public Layer {
 public:
  explicit PositionLayer(const LayerRequest& request) : Layer(request), row_(request.inputs) {
    AllowSettings(request.settings, {});
    if (row_.rank() != 2) {
      request.settings.Fail("layer " + request.name + ": position needs rows of [time, channels], not " +
                            row_.ToString());
    }
    Elements(request);
  }

  Shape outputs() const override { return row_; }
  std::vector<optim::VariableSpec> variables() const override {
    return {{name() + "/table",
             row_,
             {.kind = optim::InitKind::kGlorotUniform,
              .fan_in = static_cast<uint32_t>(row_[0]),
              .fan_out = static_cast<uint32_t>(row_[1])}}};
  }
  Flow Apply(Graph& graph, const Flow& in, std::span<const Value> variables, StepContext&) const override {
    return {graph.Make<ops::Add>({in.x, variables[0]}), in.lengths};
  }

 private:
  Shape row_;
};

// - residual: {layers: [...]}
//     y = x + layers(x). The layers must not change the shape.
class ResidualLayer final : public Layer {
 public:
  explicit ResidualLayer(const LayerRequest& request)
      : Layer(request), layers_(ReadLayers(request)), row_(request.inputs) {
    if (layers_.outputs() != row_) {
      request.settings.Fail("layer " + request.name + ": its layers turn " + row_.ToString() + " into " +
                            layers_.outputs().ToString() + "; a residual needs the same shape");
    }
  }

  Shape outputs() const override { return row_; }
  std::vector<optim::VariableSpec> variables() const override { return layers_.variables(); }
  std::vector<FrozenVariable> frozen() const override { return layers_.frozen(); }
  Flow Apply(Graph& graph, const Flow& in, std::span<const Value> variables,
             StepContext& step) const override {
    const Flow inner = layers_.Apply(graph, in, variables, step);
    return {graph.Make<ops::Add>({in.x, inner.x}), in.lengths};
  }

 private:
  static Layers ReadLayers(const LayerRequest& request) {
    AllowSettings(request.settings, {"layers"});
    return Layers::FromConfig(request.settings.At("layers"), request.inputs, request.files, request.kinds,
                              request.name + "/", request.seed);
  }

  Layers layers_;
  Shape row_;
};

constexpr LayerKind kBlockKinds[] = {
    {"attention", Make<AttentionLayer>, true},
    {"batch_norm", Make<BatchNormLayer>, true},
    {"dropout", Make<DropoutLayer>},
    {"gelu", MakeGelu, true},
    {"layer_norm", Make<LayerNormLayer>, true},
    {"position", Make<PositionLayer>, true},
    {"relu", MakePlain<ops::Relu>, true},
    {"residual", Make<ResidualLayer>},
    {"sigmoid", MakePlain<ops::Sigmoid>, true},
    {"silu", MakePlain<ops::Silu>, true},
    {"softmax", MakeSoftmax, true},
    {"softplus", MakePlain<ops::Softplus>, true},
    {"tanh", MakePlain<ops::Tanh>, true},
};

}  // namespace

std::span<const LayerKind> BlockKinds() {
  return kBlockKinds;
}

}  // namespace leat::nn
