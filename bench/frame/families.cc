#include "families.h"

namespace leat::bench {
namespace {

constexpr char kLenet[] = R"(
inputs: [28, 28, 1]
layers:
  - conv2d: {filters: 32, kernel: 5, padding: same, activation: relu}
  - max_pool: {size: 2}
  - conv2d: {filters: 64, kernel: 5, padding: same, activation: relu}
  - max_pool: {size: 2}
  - flatten
  - dense: {units: 512, activation: relu}
  - dense: {units: 10}
loss: softmax_cross_entropy
)";

constexpr char kLstm[] = R"(
inputs: 50
layers:
  - embedding: {size: 65, units: 64}
  - lstm: {units: 128}
  - dense: {units: 65}
loss: softmax_cross_entropy
)";

constexpr char kTransformer[] = R"(
inputs: 64
layers:
  - embedding: {size: 65, units: 128}
  - position
  - residual:
      layers:
        - layer_norm
        - attention: {heads: 4, causal: true}
  - residual:
      layers:
        - layer_norm
        - dense: {units: 512, activation: gelu}
        - dense: {units: 128}
  - layer_norm
  - dense: {units: 65}
loss: softmax_cross_entropy
)";

}  // namespace

std::vector<TrainingCase> Families() {
  return {
      DenseCase("mlp", {784, 512, 512, 10}, 128),
      DenseCase("tabular", {30, 64, 32, 2}, 128),
      {.name = "lenet", .model = kLenet, .batch = 64},
      {.name = "lstm", .model = kLstm, .batch = 32, .labels = 50, .features = Features::kIds},
      {.name = "transformer", .model = kTransformer, .batch = 16, .labels = 64, .features = Features::kIds},
  };
}

}  // namespace leat::bench
