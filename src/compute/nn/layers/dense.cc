// - dense: {units: 512, activation: relu, use_bias: true, init: he_normal}
//     y = activation(x W + b) over the last axis. activation: none (default), relu, sigmoid, tanh, gelu,
//     gelu_tanh. init is for W: by default he_normal before relu and glorot_uniform otherwise; or zeros,
//     {constant: 0.5}, ... b starts at 0.
#include "compute/nn/layers/kinds.h"
#include "compute/ops/ops.h"

namespace leat::nn {
namespace {

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

}  // namespace

std::shared_ptr<const Layer> MakeDense(const LayerRequest& request) {
  return Make<DenseLayer>(request);
}

}  // namespace leat::nn
