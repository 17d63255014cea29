// - dropout: {rate: 0.1}
//     in training, sets a fraction `rate` of the elements to 0 and scales up the others. The choice is a
//     function of the step's random seed and the layer's name. No effect in scoring.
#include "base/rng.h"
#include "compute/nn/layers/kinds.h"
#include "compute/ops/ops.h"

namespace leat::nn {
namespace {

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

}  // namespace

std::shared_ptr<const Layer> MakeDropout(const LayerRequest& request) {
  return Make<DropoutLayer>(request);
}

}  // namespace leat::nn
