// Compares small networks of every family with PyTorch: the first gradients, and the losses of ten steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compute/engine/plan.h"
#include "compute/kernels/cpu/table.h"
#include "compute/kernels/reference/reference.h"
#include "compute/nn/model.h"
#include "compute/ops/passes.h"
#include "compute/optim/optimizer.h"
#include "golden.h"

namespace leat::goldens {
namespace {

using Json = nlohmann::json;

constexpr uint32_t kBatchSalt = 1000;

class Network {
 public:
  Network(const Json& golden, std::vector<const graph::KernelTable*> tables)
      : golden_(golden),
        model_(nn::Model::FromConfig(
            Config::Parse(golden["model"].get<std::string>(), golden["name"].get<std::string>()),
            {.labels = golden["labels"]})),
        step_(model_.Build(golden["batch"])) {
    std::vector<graph::Value> fetches = step_.gradients;
    fetches.push_back(step_.loss);
    plan_ = engine::Plan::Compile(step_.graph, fetches,
                                  {.tables = std::move(tables), .passes = ops::StandardPasses()});
    features_ = Bound(step_.features);
    labels_ = Bound(step_.labels);
    weights_ = Bound(step_.weights);
    noise_ = Bound(step_.random_seed);
    for (size_t v = 0; v < step_.variables.size(); ++v) {
      values_.push_back(Bound(step_.variables[v]));
      gradients_.push_back(Bound(step_.gradients[v]));
    }
    loss_ = Bound(step_.loss);
    FillAll();
  }

  void CheckVariables() {
    const Json& variables = golden_["variables"];
    ASSERT_EQ(variables.size(), model_.variables().size());
    for (size_t v = 0; v < variables.size(); ++v) {
      EXPECT_EQ(variables[v]["name"], model_.variables()[v].name);
      EXPECT_EQ(ShapeOf(variables[v]["shape"]), model_.variables()[v].shape) << variables[v]["name"];
    }
  }

  void CheckGradients() {
    plan_->Run();
    const Json& all = golden_["gradients"];
    size_t v = 0;
    for (size_t i = 0; i < values_.size(); ++i) {
      if (!Trained(i)) continue;
      ASSERT_LT(v, all.size());
      CheckGradient(gradients_[i].as<float>(), all[v++]);
    }
    EXPECT_EQ(v, all.size());
  }

  void CheckTraining() {
    const optim::OptimizerConfig sgd{.kind = optim::Kind::kSgd, .learning_rate = golden_["rate"]};
    const auto losses = golden_["losses"].get<std::vector<double>>();
    for (size_t step = 0; step < losses.size(); ++step) {
      plan_->Run();
      ASSERT_NEAR(loss_.as<float>()[0], losses[step], 2e-5 * losses[step]) << "step " << step;
      for (size_t v = 0; v < values_.size(); ++v) {
        if (!Trained(v)) continue;
        optim::Apply(sgd, values_[v].as<float>(), gradients_[v].as<float>(), {}, step + 1, 1);
      }
    }
  }

 private:
  bool Trained(size_t v) const { return model_.variables()[v].role == optim::VariableRole::kTrained; }

  static void CheckGradient(std::span<const float> gradient, const Json& golden) {
    double squares = 0;
    for (float g : gradient) squares += double{g} * double{g};
    const double norm = golden["norm"];
    EXPECT_NEAR(std::sqrt(squares), norm, 2e-5 * norm + 1e-7) << golden["name"];
    for (size_t i = 0; i < golden["at"].size(); ++i) {
      const double expected = golden["values"][i];
      EXPECT_NEAR(gradient[golden["at"][i]], expected, 1e-4 * std::abs(expected) + 1e-6)
          << golden["name"] << " " << golden["at"][i];
    }
  }

  Tensor Bound(graph::Value v) {
    Tensor tensor(step_.graph.type(v));
    plan_->Bind(v, tensor.raw());
    return tensor;
  }

  void FillAll() {
    // As in networks.py: numbers in [-1, 1), or ids below a bound.
    const auto fill = [](Tensor& tensor, uint32_t salt, int below) {
      uint32_t i = 0;
      for (float& x : tensor.as<float>()) {
        x = Fill(salt, i++);
        if (below > 0) x = std::floor((x + 1) / 2 * static_cast<float>(below));
      }
    };
    fill(features_, kBatchSalt, golden_["ids"]);
    fill(labels_, kBatchSalt + 1, golden_["classes"]);
    std::ranges::fill(weights_.as<float>(), 1.0f);
    for (size_t v = 0; v < values_.size(); ++v) {
      const float scale = golden_["variables"][v]["scale"], offset = golden_["variables"][v]["offset"];
      fill(values_[v], static_cast<uint32_t>(v), 0);
      for (float& x : values_[v].as<float>()) x = x * scale + offset;
    }
  }

  const Json& golden_;
  nn::Model model_;
  nn::StepGraph step_;
  std::unique_ptr<engine::Plan> plan_;
  Tensor features_, labels_, weights_, noise_, loss_;
  std::vector<Tensor> values_, gradients_;
};

const Json& Goldens() {
  static const Json goldens = Read("networks.json");
  return goldens;
}

class Networks : public ::testing::TestWithParam<size_t> {
 protected:
  const Json& golden() { return Goldens()[GetParam()]; }
};

TEST_P(Networks, HaveTheVariablesOfTheGolden) {
  Network(golden(), {&reference::Kernels()}).CheckVariables();
}

TEST_P(Networks, GradientsAreThoseOfPyTorch) {
  Network(golden(), {&reference::Kernels()}).CheckGradients();
  Network(golden(), {&cpu::Table(), &reference::Kernels()}).CheckGradients();
}

TEST_P(Networks, TenLossesAreThoseOfPyTorch) {
  Network(golden(), {&cpu::Table(), &reference::Kernels()}).CheckTraining();
}

std::string TestName(const ::testing::TestParamInfo<size_t>& info) {
  return Goldens()[info.param]["name"];
}

INSTANTIATE_TEST_SUITE_P(Golden, Networks, ::testing::Range(size_t{0}, Goldens().size()), TestName);

}  // namespace
}  // namespace leat::goldens
