// - residual: {layers: [...]}
//     y = x + layers(x). The layers must not change the shape.
#include "compute/nn/layers/kinds.h"
#include "compute/ops/ops.h"

namespace leat::nn {
namespace {

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

}  // namespace

std::shared_ptr<const Layer> MakeResidual(const LayerRequest& request) {
  return Make<ResidualLayer>(request);
}

}  // namespace leat::nn
