// Compares first and second derivatives of every op in the list with numeric ones.
#include "compute/graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/rng.h"
#include "compute/engine/plan.h"
#include "compute/kernels/reference/reference.h"
#include "compute/ops/cases/testing.h"
#include "compute/ops/ops.h"

namespace leat::ops {

void PrintTo(const OpCase& c, std::ostream* out) {
  *out << c.name;
}

namespace {

// Relative to the larger of 1 and the derivative. Values are f32 (an error near 1e-7 of sums near 10), so
// differences over a step of 0.04 are good to about 1e-4.
constexpr double kTolerance = 3e-4;
constexpr double kStep = 0.04;

// The weighted sum of some values, as a node.
Value WeightedSum(Graph& graph, std::span<const Value> values, std::span<const Tensor> weights) {
  std::vector<Value> parts;
  for (size_t i = 0; i < values.size(); ++i) {
    const Value w = graph.Make<Constant>({}, weights[i]);
    parts.push_back(graph.Make<ReduceSum>({graph.Make<Mul>({values[i], w})}));
  }
  return graph.Make<AddN>(parts);
}

std::vector<Tensor> DrawWeights(const Graph& graph, std::span<const Value> values, uint64_t seed) {
  std::vector<Tensor> weights;
  for (Value v : values)
    weights.push_back(DrawSample({graph.type(v), -1, 1, SampleInput::Draw::kUniform}, ++seed));
  return weights;
}

// A case as a graph: its op between placeholders, the gradients of a weighted sum of its outputs, and the
// gradients of a weighted sum of these gradients.
class Derivatives {
 public:
  explicit Derivatives(const OpCase& c) {
    uint64_t seed = HashName(c.name);
    for (const SampleInput& input : c.inputs) {
      inputs_.push_back(graph_.Make<Placeholder>({}, input.type));
      data_.push_back(DrawSample(input, ++seed));
      const bool whole = input.draw == SampleInput::Draw::kInteger || input.type.dtype != DType::kF32;
      if (!whole) wrt_.push_back(inputs_.size() - 1);
    }
    const Value first = graph_.Add(c.op, inputs_);
    for (uint32_t i = 0; i < graph_.node(first).outputs.size(); ++i) {
      // Integers have no derivative.
      if (graph_.type({first.node, i}).dtype == DType::kF32) outputs_.push_back({first.node, i});
    }
    std::vector<Value> wrt;
    for (size_t i : wrt_) wrt.push_back(inputs_[i]);

    output_weights_ = DrawWeights(graph_, outputs_, seed + 100);
    grads_ = graph::Gradients(graph_, WeightedSum(graph_, outputs_, output_weights_), wrt);
    grad_weights_ = DrawWeights(graph_, grads_, seed + 200);
    if (c.derivatives >= 2) {
      second_ = graph::Gradients(graph_, WeightedSum(graph_, grads_, grad_weights_), wrt);
    }
  }

  void CheckFirst() { Check(outputs_, output_weights_, grads_); }
  void CheckSecond() { Check(grads_, grad_weights_, second_); }

 private:
  // Compares `grads` with finite differences of Σ weights · values.
  void Check(std::span<const Value> values, std::span<const Tensor> weights, std::span<const Value> grads) {
    const auto values_plan = Compile(values);
    const auto grads_plan = Compile(grads);
    grads_plan->Run();
    for (size_t g = 0; g < grads.size(); ++g) {
      const auto exact = grads_plan->At(grads[g]).as<float>();
      const auto x = data_[wrt_[g]].as<float>();
      for (size_t i = 0; i < x.size(); ++i) {
        const auto difference = [&](double step) {
          const float centre = x[i], high = centre + static_cast<float>(step),
                      low = centre - static_cast<float>(step);
          x[i] = high;
          const double above = Sum(*values_plan, values, weights);
          x[i] = low;
          const double below = Sum(*values_plan, values, weights);
          x[i] = centre;
          return (above - below) / (static_cast<double>(high) - static_cast<double>(low));
        };
        // Richardson: the errors in step² cancel.
        const double numeric = (4 * difference(kStep / 2) - difference(kStep)) / 3;
        const auto found = static_cast<double>(exact[i]);
        ASSERT_NEAR(found, numeric, kTolerance * std::max(1.0, std::abs(numeric)))
            << "by element " << i << " of input " << wrt_[g];
      }
    }
  }

  double Sum(engine::Plan& plan, std::span<const Value> values, std::span<const Tensor> weights) {
    plan.Run();
    double sum = 0;
    for (size_t v = 0; v < values.size(); ++v) {
      const auto y = plan.At(values[v]).as<float>(), w = weights[v].as<float>();
      for (size_t i = 0; i < y.size(); ++i) sum += static_cast<double>(y[i]) * static_cast<double>(w[i]);
    }
    return sum;
  }

  std::unique_ptr<engine::Plan> Compile(std::span<const Value> fetches) {
    auto plan = engine::Plan::Compile(graph_, fetches, {.tables = {&reference::Kernels()}, .passes = {}});
    for (size_t i = 0; i < inputs_.size(); ++i) plan->Bind(inputs_[i], data_[i].raw());
    return plan;
  }

  Graph graph_;
  std::vector<Value> inputs_, outputs_, grads_, second_;
  std::vector<Tensor> data_, output_weights_, grad_weights_;
  std::vector<size_t> wrt_;  // inputs to differentiate with respect to
};

class OpGradient : public ::testing::TestWithParam<OpCase> {};

TEST_P(OpGradient, IsTheNumericOne) {
  if (GetParam().derivatives >= 1) Derivatives(GetParam()).CheckFirst();
}

TEST_P(OpGradient, OfTheGradientIsTheNumericOne) {
  if (GetParam().derivatives >= 2) Derivatives(GetParam()).CheckSecond();
}

std::string TestName(const ::testing::TestParamInfo<OpCase>& info) {
  std::string name = std::to_string(info.index) + "_";
  for (char c : info.param.name) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') name += c;
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(List, OpGradient, ::testing::ValuesIn(OpCases()), TestName);

// The list and the reference table must have the same ops, so that an op missing in either fails here.
TEST(OpList, IsWhatTheReferenceComputes) {
  std::set<std::string_view> listed, computed, names;
  for (const OpCase& c : OpCases()) {
    EXPECT_TRUE(names.insert(c.name).second) << c.name << " is a duplicate";
    if (!c.op->is_view() && graph::ConstantValue(*c.op) == nullptr) listed.insert(c.op->kind());
  }
  for (const auto& [kind, factory] : reference::Kernels().factories) computed.insert(kind);
  EXPECT_EQ(listed, computed);
}

// d loss / d v for graphs small enough to differentiate by hand.
class ClosedForm : public ::testing::Test {
 protected:
  Value Feed(Shape shape, std::vector<float> values) {
    const Value v = graph_.Make<Placeholder>({}, TensorType{DType::kF32, shape});
    fed_.emplace_back(v, Tensor::Of<float>(shape, values));
    return v;
  }
  std::vector<float> Evaluate(Value v) {
    auto plan =
        engine::Plan::Compile(graph_, std::vector{v}, {.tables = {&reference::Kernels()}, .passes = {}});
    for (const auto& [value, tensor] : fed_) plan->Bind(value, tensor.raw());
    plan->Run();
    const auto elements = plan->At(v).as<float>();
    return {elements.begin(), elements.end()};
  }

  Graph graph_;
  std::vector<std::pair<Value, Tensor>> fed_;
};

TEST_F(ClosedForm, AValueReadTwiceGathersBothGradients) {
  const Value x = Feed({}, {3});
  const Value cube = graph_.Make<Mul>({graph_.Make<Square>({x}), x});
  const Value loss = graph_.Make<Add>({cube, x});  // x³ + x
  const Value first = graph::Gradients(graph_, loss, std::vector{x})[0];
  const Value second = graph::Gradients(graph_, first, std::vector{x})[0];
  const Value third = graph::Gradients(graph_, second, std::vector{x})[0];
  EXPECT_THAT(Evaluate(first), ::testing::ElementsAre(::testing::FloatEq(28)));
  EXPECT_THAT(Evaluate(second), ::testing::ElementsAre(::testing::FloatEq(18)));
  EXPECT_THAT(Evaluate(third), ::testing::ElementsAre(::testing::FloatEq(6)));
}

TEST_F(ClosedForm, LinearRegression) {
  // loss = mean (X w - y)², d loss / d w = 2 Xᵀ (X w - y) / n
  const Value x = Feed({2, 2}, {1, 2, 3, 4}), w = Feed({2, 1}, {1, -1}), y = Feed({2, 1}, {0, 1});
  const Value loss = graph_.Make<ReduceMean>({graph_.Make<SquaredError>({graph_.Make<MatMul>({x, w}), y})});
  const Value grad = graph::Gradients(graph_, loss, std::vector{w})[0];
  // X w - y = (-1, -2): Xᵀ of it is (-7, -10).
  EXPECT_THAT(Evaluate(grad), ::testing::ElementsAre(::testing::FloatEq(-7), ::testing::FloatEq(-10)));
}

TEST_F(ClosedForm, ByAnIntermediateValueAndByItsSource) {
  const Value x = Feed({}, {2});
  const Value y = graph_.Make<Square>({x});
  const Value loss = graph_.Make<Square>({y});  // x⁴
  const std::vector<Value> grads = graph::Gradients(graph_, loss, std::vector{y, x});
  EXPECT_THAT(Evaluate(grads[0]), ::testing::ElementsAre(::testing::FloatEq(8)));
  EXPECT_THAT(Evaluate(grads[1]), ::testing::ElementsAre(::testing::FloatEq(32)));
}

TEST_F(ClosedForm, ZerosWhereTheLossDoesNotReach) {
  const Value x = Feed({}, {2}), z = Feed({2}, {1, 1});
  const Value loss = graph_.Make<Square>({x});
  EXPECT_THAT(Evaluate(graph::Gradients(graph_, loss, std::vector{z})[0]), ::testing::ElementsAre(0, 0));
}

TEST_F(ClosedForm, ByTheLossItself) {
  const Value loss = graph_.Make<Square>({Feed({}, {2})});
  EXPECT_THAT(Evaluate(graph::Gradients(graph_, loss, std::vector{loss})[0]), ::testing::ElementsAre(1));
}

TEST_F(ClosedForm, CrossEntropyOfABadLabelIsZeroWithZeroGradient) {
  const Value logits = Feed({4, 2}, {1, 2, 1, 2, 1, 2, 1, 2});
  const Value labels = Feed({4}, {-1, 2, std::nanf(""), 0});
  const Value losses = graph_.Make<SoftmaxCrossEntropy>({logits, labels});
  const Value grad = graph::Gradients(graph_, graph_.Make<ReduceSum>({losses}), std::vector{logits})[0];
  const float log_sum = std::log(std::exp(1.0f) + std::exp(2.0f)), p = std::exp(1 - log_sum);
  EXPECT_THAT(Evaluate(losses), ::testing::ElementsAre(0, 0, 0, ::testing::FloatNear(log_sum - 1, 1e-6f)));
  EXPECT_THAT(Evaluate(grad), ::testing::ElementsAre(0, 0, 0, 0, 0, 0, ::testing::FloatNear(p - 1, 1e-6f),
                                                     ::testing::FloatNear(1 - p, 1e-6f)));
}

// Where an op has no derivative, PyTorch's is the convention.
TEST_F(ClosedForm, AtBoundsTiesAndRootsOfZeroTheGradientIsThatOfPyTorch) {
  const auto gradients = [&](Value y, std::vector<Value> wrt) {
    std::vector<std::vector<float>> found;
    for (Value g : graph::Gradients(graph_, graph_.Make<ReduceSum>({y}), wrt)) found.push_back(Evaluate(g));
    return found;
  };
  using Found = std::vector<std::vector<float>>;
  const Value x = Feed({3}, {-1, 0, 1}), z = Feed({3}, {0, 0, 2});
  EXPECT_EQ(gradients(graph_.Make<Clip>({x}, -1.0f, 1.0f), {x}), (Found{{0, 1, 0}}));
  EXPECT_EQ(gradients(graph_.Make<Clip>({x}, 0.0f, 6.0f), {x}), (Found{{0, 0, 1}}));
  EXPECT_EQ(gradients(graph_.Make<Maximum>({x, z}), {x, z}), (Found{{0, 0.5f, 0}, {1, 0.5f, 1}}));
  EXPECT_EQ(gradients(graph_.Make<Minimum>({x, z}), {x, z}), (Found{{1, 0.5f, 1}, {0, 0.5f, 0}}));
  const Value scalar = Feed({}, {0});
  EXPECT_EQ(gradients(graph_.Make<Maximum>({x, scalar}), {x, scalar}), (Found{{0, 0.5f, 1}, {1.5f}}));
  const Value four = Feed({2}, {0, 4});
  EXPECT_EQ(gradients(graph_.Make<Sqrt>({four}), {four}), (Found{{0, 0.25f}}));
  EXPECT_EQ(gradients(graph_.Make<Power>({four}, 0.5f), {four}), (Found{{0, 0.25f}}));
  EXPECT_EQ(gradients(graph_.Make<ReduceL2>({scalar}), {scalar}), (Found{{0}}));
  const Value hard = Feed({2}, {-3, 3});
  EXPECT_EQ(gradients(HardSwish(graph_, hard), {hard}), (Found{{0, 1}}));
}

TEST_F(ClosedForm, RefusesALossThatIsNoScalar) {
  const Value x = Feed({2}, {1, 2});
  EXPECT_THAT([&] { graph::Gradients(graph_, x, std::vector{x}); },
              ::testing::ThrowsMessage<std::invalid_argument>(
                  "the loss \"placeholder\" is f32[2]; gradients start from an f32 scalar"));
}

TEST_F(ClosedForm, RefusesIntegers) {
  const Value x = graph_.Make<Placeholder>({}, TensorType{DType::kI32, {2}});
  const Value loss = graph_.Make<ReduceSum>({graph_.Make<Cast>({x})});
  EXPECT_THAT([&] { graph::Gradients(graph_, loss, std::vector{x}); },
              ::testing::ThrowsMessage<std::invalid_argument>(
                  "no gradient with respect to \"placeholder\": its type is i32[2]"));
}

}  // namespace
}  // namespace leat::ops
