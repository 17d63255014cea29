// Trains a model in this process, like a worker without servers, for `bench step` and `bench engine`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compute/engine/plan.h"
#include "compute/nn/model.h"
#include "compute/optim/optimizer.h"
#include "compute/tensor/tensor.h"

namespace leat::bench {

// The distribution of a batch's random features.
enum class Features : uint8_t { kNormal, kIds };

struct TrainingCase {
  std::string name;   // "lenet"
  std::string model;  // the `model:` section of a job
  int64_t batch = 1;
  uint32_t labels = 1;  // per row
  Features features = Features::kNormal;
};

// Trains random batches in one thread. `bf16`: matrix products use bf16 operands.
class Training {
 public:
  Training(const TrainingCase& c, const optim::OptimizerConfig& optimizer, bool bf16 = false);

  // Writes the batch and the variables into a directory, so that other frameworks can train the same: one
  // file of f32 each, named features, labels, and dense1.weight for the variable dense1/weight.
  void Save(const std::string& directory) const;
  // Forward, backward and update.
  void Step();
  // The loss of the last step.
  float loss() const;
  engine::Plan& plan() { return *plan_; }
  // Arithmetic operations of one step, forward and backward.
  double flops() const { return flops_; }

 private:
  struct Variable {
    Tensor elements;
    Tensor gradient;
    std::vector<Tensor> slots;
    std::vector<std::span<float>> slot_spans;
  };

  optim::OptimizerConfig optimizer_;
  nn::Model model_;
  std::vector<Variable> variables_;
  Tensor features_, labels_, weights_, noise_, loss_;
  std::unique_ptr<engine::Plan> plan_;
  double flops_ = 0;
  uint64_t step_ = 0;
};

// A stack of dense layers with relu between them: "784-512-10".
TrainingCase DenseCase(std::string name, const std::vector<int64_t>& sizes, int64_t batch);

}  // namespace leat::bench
