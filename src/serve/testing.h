// A small job and its model, for tests of live predictions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "compute/engine/plan.h"
#include "compute/kernels/cpu/table.h"
#include "compute/kernels/reference/reference.h"
#include "compute/ops/passes.h"
#include "job/job.h"
#include "protocol/parameters.h"

namespace leat::serve::testing {

inline constexpr const char* kPayments = R"(name: payments
stream: {topic: payments, bots: {events: 100}}
schema:
  format: json
  fields:
    amount: {type: number, mean: 3, std: 2}
    hour: {type: number, period: 24}
    country: {type: category, values: [ES, MX, US]}
    shop: {type: id, below: 10}
    fraud: {type: number, role: label, classes: 2}
    p_fraud: {type: number, role: truth}
model:
  layers: [dense: {units: 8, activation: relu}, dense: {units: 2}]
  loss: softmax_cross_entropy
optimizer: {type: sgd, learning_rate: 0.1}
)";

inline constexpr uint32_t kWidth = 7;  // features of the job

inline job::Job Payments() {
  return job::Job::FromText(kPayments, "job.yaml");
}

inline engine::PlanOptions Kernels() {
  engine::PlanOptions options;
  options.tables = {&cpu::Table(), &reference::Kernels()};
  options.passes = ops::StandardPasses();
  return options;
}

// Other values for each seed.
inline void Fill(protocol::Parameters* parameters, uint64_t seed) {
  Rng rng(seed);
  for (size_t v = 0; v < parameters->table().variables.size(); ++v) {
    for (float& value : parameters->values(v)) value = static_cast<float>(rng.Normal());
  }
}

inline std::vector<float> RandomRows(size_t rows, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> features(rows * kWidth);
  for (float& x : features) x = static_cast<float>(rng.Normal());
  return features;
}

}  // namespace leat::serve::testing
