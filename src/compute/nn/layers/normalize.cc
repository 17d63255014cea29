// - layer_norm: {epsilon: 0.00001}
//     normalises the last axis of each row to mean 0 and variance 1, then applies a learnt scale and offset.
// - batch_norm: {momentum: 0.9, epsilon: 0.00001}
//     normalises each channel (the last axis) over the batch. In training, each step updates the running mean
//     and variance: running = momentum · running + (1 - momentum) · batch. Scoring uses the running values,
//     and so does training if they are frozen.
#include "compute/graph/builtin.h"
#include "compute/nn/layers/kinds.h"
#include "compute/ops/ops.h"

namespace leat::nn {
namespace {

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

}  // namespace

std::shared_ptr<const Layer> MakeLayerNorm(const LayerRequest& request) {
  return Make<LayerNormLayer>(request);
}

std::shared_ptr<const Layer> MakeBatchNorm(const LayerRequest& request) {
  return Make<BatchNormLayer>(request);
}

}  // namespace leat::nn
