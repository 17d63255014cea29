// - bias: {units: 8, init: zeros}
//     y = b for every row; ignores x. For a model that only learns frequencies.
#include "compute/nn/layers/kinds.h"
#include "compute/ops/ops.h"

namespace leat::nn {
namespace {

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

}  // namespace

std::shared_ptr<const Layer> MakeBias(const LayerRequest& request) {
  return Make<BiasLayer>(request);
}

}  // namespace leat::nn
