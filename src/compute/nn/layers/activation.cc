// - relu, sigmoid, tanh, silu, softplus, softmax (over the last axis)
// - gelu: {approximate: false}
//     activations as separate layers; dense: {activation: ...} is equivalent.
#include "compute/nn/layers/kinds.h"
#include "compute/ops/ops.h"

namespace leat::nn {
namespace {

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

}  // namespace

std::shared_ptr<const Layer> MakeRelu(const LayerRequest& request) {
  return MakePlain<ops::Relu>(request);
}

std::shared_ptr<const Layer> MakeSigmoid(const LayerRequest& request) {
  return MakePlain<ops::Sigmoid>(request);
}

std::shared_ptr<const Layer> MakeTanh(const LayerRequest& request) {
  return MakePlain<ops::Tanh>(request);
}

std::shared_ptr<const Layer> MakeSilu(const LayerRequest& request) {
  return MakePlain<ops::Silu>(request);
}

std::shared_ptr<const Layer> MakeSoftplus(const LayerRequest& request) {
  return MakePlain<ops::Softplus>(request);
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

}  // namespace leat::nn
