// Compares expressions over many ops with PyTorch: values, gradients, and gradients of gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <sstream>

#include "compute/engine/plan.h"
#include "compute/graph/graph.h"
#include "compute/kernels/cpu/table.h"
#include "compute/kernels/reference/reference.h"
#include "compute/ops/ops.h"
#include "compute/ops/passes.h"
#include "golden.h"

namespace leat::goldens {
namespace {

using graph::Graph;
using graph::Value;
using Json = nlohmann::json;
using Unary = std::function<Value(Graph&, Value)>;
using Binary = std::function<Value(Graph&, Value, Value)>;

template <class O>
Unary Of() {
  return [](Graph& g, Value x) { return g.Make<O>({x}); };
}
template <class O>
Unary Rows() {
  return [](Graph& g, Value x) { return g.Make<O>({x}, std::vector<int>{-1}); };
}
template <class O>
Binary OfTwo() {
  return [](Graph& g, Value a, Value b) { return g.Make<O>({a, b}); };
}

const std::map<std::string, Unary>& UnaryWords() {
  static const std::map<std::string, Unary> words = {
      {"abs", Of<ops::Abs>()},
      {"cos", Of<ops::Cos>()},
      {"elu", [](Graph& g, Value x) { return g.Make<ops::Elu>({x}); }},
      {"erf", Of<ops::Erf>()},
      {"exp", Of<ops::Exp>()},
      {"expm1", Of<ops::Expm1>()},
      {"gelu", [](Graph& g, Value x) { return g.Make<ops::Gelu>({x}); }},
      {"leaky_relu", [](Graph& g, Value x) { return g.Make<ops::LeakyRelu>({x}, 0.01f); }},
      {"log", Of<ops::Log>()},
      {"log1p", Of<ops::Log1p>()},
      {"log_softmax", Of<ops::LogSoftmax>()},
      {"neg", Of<ops::Neg>()},
      {"reciprocal", Of<ops::Reciprocal>()},
      {"relu", Of<ops::Relu>()},
      {"row_logsumexp", Rows<ops::LogSumExp>()},
      {"row_max", Rows<ops::ReduceMax>()},
      {"row_mean", Rows<ops::ReduceMean>()},
      {"row_sum", Rows<ops::ReduceSum>()},
      {"sigmoid", Of<ops::Sigmoid>()},
      {"silu", Of<ops::Silu>()},
      {"sin", Of<ops::Sin>()},
      {"softmax", Of<ops::Softmax>()},
      {"softplus", Of<ops::Softplus>()},
      {"sqrt", Of<ops::Sqrt>()},
      {"square", Of<ops::Square>()},
      {"sum", Of<ops::ReduceSum>()},
      {"tanh", Of<ops::Tanh>()},
      {"transpose", Of<ops::Transpose>()},
  };
  return words;
}

const std::map<std::string, Binary>& BinaryWords() {
  static const std::map<std::string, Binary> words = {
      {"add", OfTwo<ops::Add>()},
      {"concat",
       [](Graph& g, Value a, Value b) {
         return g.Make<ops::Concat>({a, b}, -1);
       }},
      {"div", OfTwo<ops::Div>()},
      {"matmul", OfTwo<ops::MatMul>()},
      {"maximum", OfTwo<ops::Maximum>()},
      {"minimum", OfTwo<ops::Minimum>()},
      {"mul", OfTwo<ops::Mul>()},
      {"pow", OfTwo<ops::Pow>()},
      {"sub", OfTwo<ops::Sub>()},
  };
  return words;
}

Value Total(Graph& graph, Value x) {
  return graph.shape(x).rank() == 0 ? x : graph.Make<ops::ReduceSum>({x});
}

// An expression as a graph, with first and second derivatives.
class Expression {
 public:
  Expression(const Json& golden, uint32_t number) {
    for (size_t i = 0; i < golden["inputs"].size(); ++i) {
      const Json& input = golden["inputs"][i];
      const TensorType type{DType::kF32, ShapeOf(input["shape"])};
      const float low = input["low"], high = input["high"];
      inputs_.push_back(
          graph_.MakeNamed<ops::Placeholder>(std::string(1, static_cast<char>('a' + i)), {}, type));
      data_.emplace_back(type);
      uint32_t at = 0;
      for (float& x : data_.back().as<float>()) {
        x = low + (Fill(10 * number + static_cast<uint32_t>(i), at++) + 1) / 2 * (high - low);
      }
    }
    value_ = Evaluate(golden["expression"]);
    Tensor w(graph_.type(value_));
    uint32_t at = 0;
    for (float& x : w.as<float>()) x = Fill(10 * number + 9, at++);
    const Value weighted = graph_.Make<ops::Mul>({value_, graph_.Make<ops::Constant>({}, w)});
    gradients_ = graph::Gradients(graph_, Total(graph_, weighted), inputs_);
    std::vector<Value> squares;
    for (Value g : gradients_) squares.push_back(Total(graph_, graph_.Make<ops::Square>({g})));
    second_ = graph::Gradients(graph_, graph_.Make<ops::AddN>(squares), inputs_);
  }

  void Check(const Json& golden, std::vector<const graph::KernelTable*> tables) {
    std::vector<Value> fetches = {value_};
    fetches.insert(fetches.end(), gradients_.begin(), gradients_.end());
    fetches.insert(fetches.end(), second_.begin(), second_.end());
    const auto plan = engine::Plan::Compile(graph_, fetches,
                                            {.tables = std::move(tables), .passes = ops::StandardPasses()});
    for (size_t i = 0; i < inputs_.size(); ++i) plan->Bind(inputs_[i], data_[i].raw());
    plan->Run();
    CheckValues(plan->At(value_), golden["value"], "value");
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const std::string by = " by input " + std::to_string(i);
      CheckValues(plan->At(gradients_[i]), golden["gradients"][i], "gradient" + by);
      CheckValues(plan->At(second_[i]), golden["second"][i], "second derivative" + by);
    }
  }

 private:
  Value Evaluate(const std::string& text) {
    std::vector<Value> stack;
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      if (word.size() == 1) {
        stack.push_back(inputs_.at(static_cast<size_t>(word[0] - 'a')));
        continue;
      }
      const Value right = stack.back();
      stack.pop_back();
      if (const auto unary = UnaryWords().find(word); unary != UnaryWords().end()) {
        stack.push_back(unary->second(graph_, right));
      } else {
        stack.back() = BinaryWords().at(word)(graph_, stack.back(), right);
      }
    }
    return stack.at(0);
  }

  // PyTorch computes in double, so the difference is the rounding of f32.
  static void CheckValues(const Tensor& actual, const Json& expected, const std::string& what) {
    const auto values = actual.as<float>();
    ASSERT_EQ(values.size(), expected.size()) << what;
    double scale = 0.1;
    for (const auto& e : expected) scale = std::max(scale, std::abs(e.get<double>()));
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(values[i], expected[i].get<double>(), 1e-5 * scale) << what << " " << i;
    }
  }

  Graph graph_;
  std::vector<Value> inputs_, gradients_, second_;
  Value value_;
  std::vector<Tensor> data_;
};

TEST(Expressions, AreThoseOfPyTorch) {
  const Json goldens = Read("expressions.json");
  ASSERT_GE(goldens.size(), 18u);
  for (uint32_t i = 0; i < goldens.size(); ++i) {
    SCOPED_TRACE(goldens[i]["expression"].get<std::string>());
    Expression expression(goldens[i], i);
    expression.Check(goldens[i], {&reference::Kernels()});
    expression.Check(goldens[i], {&cpu::Table(), &reference::Kernels()});
  }
}

}  // namespace
}  // namespace leat::goldens
