// What a checkpoint is worth on files that it was not trained on.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "base/status.h"
#include "engine/plan.h"
#include "job/job.h"
#include "protocol/parameters.h"

namespace leat::train {

// A checkpoint on the job's `evaluate:` files. kDataLoss when no record fits the schema.
struct Evaluation {
  uint64_t rows = 0;
  uint64_t dead_letters = 0;
  std::optional<double> accuracy;  // share of the labels, where there are classes
  std::optional<double> loss;      // mean over the rows, unless it is not finite
};
Result<Evaluation> Evaluate(const Job& job, const engine::PlanOptions& plan);
// The same of these values.
Result<Evaluation> Evaluate(const Job& job, const engine::PlanOptions& plan,
                            protocol::Parameters& parameters);

// What a job's summary says of it (docs/jobs.md).
void AddToSummary(const Evaluation& evaluation, nlohmann::ordered_json* summary);

}  // namespace leat::train
