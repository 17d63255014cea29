// Recurrent layers compared with loops written from their equations, the weight layouts of PyTorch and ONNX,
// and sparse gradients.
#include "compute/ops/sequence/recurrent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compute/engine/plan.h"
#include "compute/graph/graph.h"
#include "compute/kernels/reference/reference.h"
#include "compute/ops/ops.h"
#include "compute/ops/testing.h"

namespace leat::ops {
namespace {

constexpr int64_t kBatch = 3, kTime = 4, kInputs = 2, kUnits = 3;

double SigmoidOf(double x) {
  return 1 / (1 + std::exp(-x));
}

// Random inputs and the results of a graph for them.
class Sequences : public ::testing::Test {
 protected:
  Value Feed(Shape shape) {
    const Value v = graph_.Make<Placeholder>({}, TensorType{DType::kF32, shape});
    data_[v] = DrawSample({graph_.type(v), -1, 1, SampleInput::Draw::kUniform}, data_.size() + 1);
    return v;
  }
  Value FeedLengths(std::vector<int32_t> lengths) {
    const Shape shape{static_cast<int64_t>(lengths.size())};
    const Value v = graph_.Make<Placeholder>({}, TensorType{DType::kI32, shape});
    data_[v] = Tensor::Of<int32_t>(shape, lengths);
    return v;
  }
  double At(Value v, int64_t i) { return static_cast<double>(data_[v].as<float>()[static_cast<size_t>(i)]); }
  // Σ_i x[i] w[i, column] for a row of x.
  template <class X>
  double Product(const X& x, int64_t n, Value w, int64_t column) {
    const int64_t width = graph_.shape(w)[1];
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += x(i) * At(w, i * width + column);
    return sum;
  }
  std::vector<float> Evaluate(Value v) {
    auto plan =
        engine::Plan::Compile(graph_, std::vector{v}, {.tables = {&reference::Kernels()}, .passes = {}});
    for (Value feed : plan->feeds()) plan->Bind(feed, data_[feed].raw());
    plan->Run();
    const auto elements = plan->At(v).as<float>();
    return {elements.begin(), elements.end()};
  }
  RecurrentInputs Inputs(int64_t gates) {
    return {.x = Feed({kBatch, kTime, kInputs}),
            .input_weight = Feed({kInputs, gates * kUnits}),
            .state_weight = Feed({kUnits, gates * kUnits}),
            .bias = Feed({gates * kUnits}),
            .lengths = {},
            .hidden = {},
            .cell = {}};
  }
  // x W + b of one gate's unit at a step.
  double Input(const RecurrentInputs& in, int64_t b, int64_t t, int64_t column) {
    return At(*in.bias, column) + Product([&](int64_t i) { return At(in.x, (b * kTime + t) * kInputs + i); },
                                          kInputs, in.input_weight, column);
  }

  Graph graph_;
  std::map<Value, Tensor> data_;
};

void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(actual[i]), expected[i], 2e-6) << i;
  }
}

TEST_F(Sequences, LstmIsItsEquations) {
  for (const bool reverse : {false, true}) {
    RecurrentInputs in = Inputs(4);
    in.hidden = Feed({kBatch, kUnits});
    in.cell = Feed({kBatch, kUnits});
    const std::vector<int32_t> lengths = {4, 2, 0};
    in.lengths = FeedLengths(lengths);
    const RecurrentOutputs out = AddLstm(graph_, in, reverse);

    std::vector<double> sequence(kBatch * kTime * kUnits, 0.0), last, cells;
    for (int64_t b = 0; b < kBatch; ++b) {
      std::vector<double> h, c;
      for (int64_t j = 0; j < kUnits; ++j) {
        h.push_back(At(*in.hidden, b * kUnits + j));
        c.push_back(At(*in.cell, b * kUnits + j));
      }
      const int64_t length = lengths[static_cast<size_t>(b)];
      for (int64_t s = 0; s < length; ++s) {
        const int64_t t = reverse ? length - 1 - s : s;
        std::vector<double> next_h, next_c;
        for (int64_t j = 0; j < kUnits; ++j) {
          double z[4];
          for (int64_t gate = 0; gate < 4; ++gate) {
            const int64_t column = gate * kUnits + j;
            z[gate] = Input(in, b, t, column) + Product([&](int64_t i) { return h[static_cast<size_t>(i)]; },
                                                        kUnits, in.state_weight, column);
          }
          next_c.push_back(SigmoidOf(z[1]) * c[static_cast<size_t>(j)] + SigmoidOf(z[0]) * std::tanh(z[2]));
          next_h.push_back(SigmoidOf(z[3]) * std::tanh(next_c.back()));
          sequence[static_cast<size_t>((b * kTime + t) * kUnits + j)] = next_h.back();
        }
        h = next_h;
        c = next_c;
      }
      last.insert(last.end(), h.begin(), h.end());
      cells.insert(cells.end(), c.begin(), c.end());
    }
    ExpectNear(Evaluate(out.sequence), sequence);
    ExpectNear(Evaluate(out.hidden), last);
    ExpectNear(Evaluate(*out.cell), cells);
  }
}

TEST_F(Sequences, GruIsItsEquations) {
  for (const bool before : {true, false}) {
    const RecurrentInputs in = Inputs(3);
    const std::optional<Value> new_bias = before ? std::optional(Feed({kUnits})) : std::nullopt;
    const RecurrentOutputs out = AddGru(graph_, in, new_bias);

    std::vector<double> sequence;
    for (int64_t b = 0; b < kBatch; ++b) {
      std::vector<double> h(kUnits, 0.0);
      for (int64_t t = 0; t < kTime; ++t) {
        std::vector<double> r, u, next;
        const auto gate = [&](int64_t column, auto state) {
          return Input(in, b, t, column) + Product(state, kUnits, in.state_weight, column);
        };
        const auto state = [&](int64_t i) { return h[static_cast<size_t>(i)]; };
        const auto reset = [&](int64_t i) { return r[static_cast<size_t>(i)] * state(i); };
        for (int64_t j = 0; j < kUnits; ++j) {
          r.push_back(SigmoidOf(gate(j, state)));
          u.push_back(SigmoidOf(gate(kUnits + j, state)));
        }
        for (int64_t j = 0; j < kUnits; ++j) {
          const int64_t column = 2 * kUnits + j;
          const auto at = static_cast<size_t>(j);
          const double fresh =
              before ? std::tanh(Input(in, b, t, column) +
                                 r[at] * (Product(state, kUnits, in.state_weight, column) + At(*new_bias, j)))
                     : std::tanh(gate(column, reset));
          next.push_back(u[at] * h[at] + (1 - u[at]) * fresh);
        }
        h = next;
        sequence.insert(sequence.end(), h.begin(), h.end());
      }
    }
    ExpectNear(Evaluate(out.sequence), sequence);
  }
}

// With lengths, both directions stay within each row.
TEST_F(Sequences, LengthsBelowZeroAndBeyondTheEndMeanNoneAndAll) {
  RecurrentInputs in = Inputs(1);
  const std::vector<float> all = Evaluate(AddRnn(graph_, in, false).sequence);
  in.lengths = FeedLengths({-5, 1000, INT32_MAX});
  const std::vector<float> some = Evaluate(AddRnn(graph_, in, false).sequence);
  const size_t row = kTime * kUnits;
  EXPECT_THAT(std::vector(some.begin(), some.begin() + row), ::testing::Each(0));
  EXPECT_EQ(std::vector(some.begin() + row, some.end()), std::vector(all.begin() + row, all.end()));
}

TEST_F(Sequences, ASecondDerivativeIsRefusedByName) {
  const RecurrentInputs in = Inputs(4);
  const Value loss = graph_.Make<ReduceSum>({AddLstm(graph_, in).sequence});
  const Value gradient = graph::Gradients(graph_, loss, std::vector{in.state_weight})[0];
  const Value again = graph_.Make<ReduceSum>({graph_.Make<Square>({gradient})});
  EXPECT_THAT([&] { graph::Gradients(graph_, again, std::vector{in.state_weight}); },
              ::testing::ThrowsMessage<std::invalid_argument>(::testing::HasSubstr("lstm_grad")));
}

TEST_F(Sequences, ShapesThatDoNotFitAreNamed) {
  const auto refusal = [](const Op& op, std::vector<TensorType> inputs) -> std::string {
    try {
      op.Infer(inputs);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "accepted";
  };
  const TensorType z{DType::kF32, {5, 2, 12}}, wh{DType::kF32, {3, 12}}, lengths{DType::kI32, {2}};
  EXPECT_EQ(refusal(Lstm(), {z, wh}), "accepted");
  EXPECT_EQ(refusal(Lstm(), {z, {DType::kF32, {4, 12}}}),
            "z[5, 2, 12] and wh[4, 12]: must be [time, batch, 4 units] and [units, 4 units]");
  EXPECT_EQ(refusal(Lstm({.lengths = true}), {z, wh}), "takes 3 inputs, not 2");
  EXPECT_EQ(refusal(Lstm({.lengths = true}), {z, wh, {DType::kI32, {3}}}),
            "lengths are i32[3]; must be i32[2]");
  EXPECT_EQ(refusal(Lstm({.lengths = true, .initial = true}), {z, wh, lengths, wh, wh}),
            "initial state [3, 12] must be [2, 3]");
  EXPECT_EQ(refusal(Gru(), {z, {DType::kF32, {4, 12}}, {DType::kF32, {3}}}), "new_bias [3] must be [4]");
  EXPECT_EQ(refusal(Embedding(), {wh, wh}), "ids are f32[3, 12]; must be i32");
  EXPECT_EQ(refusal(SequenceLengths(0), {wh}), "ids are f32[3, 12]; must be i32[batch, time]");
}

TEST(SequenceLengthsTest, CountsUpToThePaddingThatEndsARow) {
  Graph graph;
  const Tensor ids = Tensor::Of<int32_t>({4, 3}, std::vector<int32_t>{1, 2, 0, 0, 0, 0, 0, 3, 0, 1, 0, 2});
  const Value v = graph.Make<SequenceLengths>({graph.Make<Constant>({}, ids)}, 0);
  auto plan = engine::Plan::Compile(graph, std::vector{v}, {.tables = {&reference::Kernels()}, .passes = {}});
  plan->Run();
  EXPECT_THAT(plan->At(v).as<int32_t>(), ::testing::ElementsAre(2, 0, 2, 3));
}

}  // namespace
}  // namespace leat::ops
