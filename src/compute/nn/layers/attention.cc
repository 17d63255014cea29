// - attention: {heads: 4, causal: false, units: 128}
//     multi-head self-attention over a sequence [time, channels]: y = out(attention(q, k, v)), where q, k and
//     v are linear in x. `units`: channels of each of q, k and v over all heads; default: the channels of x.
//     Steps after the end of a sequence are masked, and their attention output is 0.
#include "compute/nn/layers/kinds.h"
#include "compute/ops/ops.h"

namespace leat::nn {
namespace {

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

}  // namespace

std::shared_ptr<const Layer> MakeAttention(const LayerRequest& request) {
  return Make<AttentionLayer>(request);
}

}  // namespace leat::nn
