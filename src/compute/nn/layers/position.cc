// - position
//     learnt position embedding: adds one trained vector per step to a sequence [time, channels].
#include "compute/nn/layers/kinds.h"
#include "compute/ops/ops.h"

namespace leat::nn {
namespace {

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

}  // namespace

std::shared_ptr<const Layer> MakePosition(const LayerRequest& request) {
  return Make<PositionLayer>(request);
}

}  // namespace leat::nn
