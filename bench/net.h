// A dense network that trains in this process: the step that `step` measures.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/plan.h"
#include "graph/graph.h"
#include "optim/optimizer.h"
#include "tensor/tensor.h"

namespace leat::bench {

// ReLU between the layers, softmax cross entropy behind the last; batches are drawn at random, weights start
// from He et al. 2015.
class DenseTrainer {
 public:
  // sizes: of the features, of each hidden layer, of the classes.
  DenseTrainer(const std::vector<int64_t>& sizes, int64_t batch, const optim::OptimizerConfig& optimizer);

  // Forward, backward and update.
  void Step();
  // Of the last step.
  float loss() const;
  const engine::Plan& plan() const { return *plan_; }

 private:
  struct Variable {
    graph::Value value;
    Tensor elements;
    Tensor gradient;
    std::vector<Tensor> slots;
  };

  graph::Value AddVariable(const Shape& shape, int64_t fan_in);

  optim::OptimizerConfig optimizer_;
  graph::Graph graph_;
  std::vector<Variable> variables_;
  Tensor features_;
  Tensor labels_;
  Tensor loss_;
  std::unique_ptr<engine::Plan> plan_;
  uint64_t step_ = 0;
};

}  // namespace leat::bench
