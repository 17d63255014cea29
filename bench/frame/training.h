// A model that trains in this process, as a worker would but without servers: the step that `step` and
// `engine` measure.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/plan.h"
#include "nn/model.h"
#include "optim/optimizer.h"
#include "tensor/tensor.h"

namespace leat::bench {

// How the features of a batch are drawn.
enum class Features : uint8_t { kNormal, kIds };

struct TrainingCase {
  std::string name;   // "lenet"
  std::string model;  // the `model:` section of a job
  int64_t batch = 1;
  uint32_t labels = 1;  // of a row
  Features features = Features::kNormal;
};

// One thread; batches are drawn at random. With `bf16`, products take their operands in it.
class Training {
 public:
  Training(const TrainingCase& c, const optim::OptimizerConfig& optimizer, bool bf16 = false);

  // Writes batch and variables as they are now, one file of f32 each, into a directory: features, labels, and
  // dense1.weight for the variable dense1/weight. So others can train the same.
  void Save(const std::string& directory) const;
  // Forward, backward and update.
  void Step();
  // Of the last step.
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
