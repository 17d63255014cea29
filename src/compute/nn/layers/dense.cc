// Layers of one product or none.
#include "compute/nn/layers/kinds.h"
#include "compute/ops/ops.h"

namespace leat::nn {
namespace {

// - dense: {units: 512, activation: relu, use_bias: true, init: he_normal}
//     y = activation(x W + b) over the last axis. activation: none (default), relu, sigmoid, tanh, gelu,
//     gelu_tanh. init is for W: by default he_normal before relu and glorot_uniform otherwise; or zeros,
//     {constant: 0.5}, ... b starts at 0.
class DenseLayer final : public Layer {
 public:
  explicit DenseLayer(const LayerRequest& request) : Layer(request), row_(request.inputs) {
    const Config& settings = request.settings;
    AllowSettings(settings, {"units", "activation", "use_bias", "init"});
    Elements(request);
    inputs_ = row_.rank() == 0 ? 1 : static_cast<uint32_t>(row_[row_.rank() - 1]);
    units_ = ReadUnits(settings);
    activation_ = ReadActivation(settings);
    use_bias_ = settings.Bool("use_bias", true);
    const auto init = activation_ == ops::Activation::kRelu ? InitKind::kHeNormal : InitKind::kGlorotUniform;
    init_ = ReadInit(settings, init, inputs_, units_);
  }

  Shape outputs() const override {
    std::vector<int64_t> sizes(row_.sizes().begin(), row_.sizes().end());
    if (sizes.empty()) sizes.push_back(1);
    sizes.back() = units_;
    return Shape(std::span<const int64_t>(sizes));
  }
  bool has_activation() const override { return activation_ != ops::Activation::kNone; }

  std::vector<VariableSpec> variables() const override {
    std::vector<VariableSpec> all = {{name() + "/weight", Shape{inputs_, units_}, init_}};
    if (use_bias_) all.push_back({name() + "/bias", Shape{units_}, InitSpec{}});
    return all;
  }

  Flow Apply(Graph& graph, const Flow& in, std::span<const Value> variables, StepContext&) const override {
    const int64_t batch = graph.shape(in.x)[0];
    Value x = in.x;
    // MatMul needs matrices: merge all axes but the last.
    const bool reshaped = row_.rank() != 1;
    if (reshaped) x = graph.Make<ops::Reshape>({x}, Shape{batch * row_.elements() / inputs_, inputs_});
    Value y = graph.Make<ops::MatMul>({x, variables[0]});
    if (use_bias_) y = graph.Make<ops::BiasAdd>({y, variables[1]});
    y = Activate(graph, y, activation_);
    if (reshaped) y = graph.Make<ops::Reshape>({y}, WithBatch(batch, outputs()));
    return {y, in.lengths};
  }

 private:
  Shape row_;
  uint32_t inputs_ = 0, units_ = 0;
  ops::Activation activation_ = ops::Activation::kNone;
  bool use_bias_ = true;
  InitSpec init_;
};

// - bias: {units: 8, init: zeros}
//     y = b for every row; ignores x. For a model that only learns frequencies.
class BiasLayer final : public Layer {
 public:
  explicit BiasLayer(const LayerRequest& request) : Layer(request) {
    AllowSettings(request.settings, {"units", "init"});
    units_ = ReadUnits(request.settings);
    init_ = ReadInit(request.settings, optim::InitKind::kZeros, units_, units_);
  }

  Shape outputs() const override { return {units_}; }
  std::vector<optim::VariableSpec> variables() const override {
    return {{name() + "/bias", Shape{units_}, init_}};
  }
  Flow Apply(Graph& graph, const Flow& in, std::span<const Value> variables, StepContext&) const override {
    return {graph.Make<ops::BroadcastTo>({variables[0]}, Shape{graph.shape(in.x)[0], units_}), {}};
  }

 private:
  uint32_t units_ = 0;
  optim::InitSpec init_;
};

// - flatten
//     flattens each row to one axis.
// - reshape: {shape: [28, 28, 1]}
//     gives each row another shape.
class ReshapeLayer final : public Layer {
 public:
  ReshapeLayer(const LayerRequest& request, Shape row) : Layer(request), row_(row) {
    Elements(request);
    if (row.elements() != request.inputs.elements()) {
      request.settings.Fail("layer " + request.name + ": row shape " + request.inputs.ToString() +
                            " cannot be reshaped to " + row.ToString() +
                            ", which has another number of elements");
    }
  }
  Shape outputs() const override { return row_; }
  bool keeps_values() const override { return true; }
  Flow Apply(Graph& graph, const Flow& in, std::span<const Value>, StepContext&) const override {
    return {graph.Make<ops::Reshape>({in.x}, WithBatch(graph.shape(in.x)[0], row_)), {}};
  }

 private:
  Shape row_;
};

std::shared_ptr<const Layer> MakeFlatten(const LayerRequest& request) {
  AllowSettings(request.settings, {});
  return std::make_shared<ReshapeLayer>(request, Shape{request.inputs.elements()});
}

std::shared_ptr<const Layer> MakeReshape(const LayerRequest& request) {
  AllowSettings(request.settings, {"shape"});
  return std::make_shared<ReshapeLayer>(request, ReadShape(request.settings.At("shape")));
}

constexpr LayerKind kDenseKinds[] = {
    {"dense", Make<DenseLayer>},
    {"bias", Make<BiasLayer>},
    {"flatten", MakeFlatten, true},
    {"reshape", MakeReshape},
};

}  // namespace

std::span<const LayerKind> DenseKinds() {
  return kDenseKinds;
}

}  // namespace leat::nn
