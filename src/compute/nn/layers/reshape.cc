// - flatten
//     flattens each row to one axis.
// - reshape: {shape: [28, 28, 1]}
//     gives each row another shape.
#include "compute/nn/layers/kinds.h"
#include "compute/ops/ops.h"

namespace leat::nn {
namespace {

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

}  // namespace

std::shared_ptr<const Layer> MakeFlatten(const LayerRequest& request) {
  AllowSettings(request.settings, {});
  return std::make_shared<ReshapeLayer>(request, Shape{request.inputs.elements()});
}

std::shared_ptr<const Layer> MakeReshape(const LayerRequest& request) {
  AllowSettings(request.settings, {"shape"});
  return std::make_shared<ReshapeLayer>(request, ReadShape(request.settings.At("shape")));
}

}  // namespace leat::nn
