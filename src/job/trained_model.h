// A trained model: its evaluation on files that it was not trained on, and its ONNX file.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "compute/engine/plan.h"
#include "job/job.h"
#include "protocol/parameters.h"

namespace leat::job {

// Evaluation of a checkpoint on files that it was not trained on.

// The result of a checkpoint on the job's `evaluate:` files.
struct Evaluation {
  uint64_t rows = 0;
  uint64_t dead_letters = 0;
  std::optional<double> accuracy;  // share of correct labels; none without classes
  std::optional<double> loss;      // mean over the rows; none if not finite
  std::string warning;             // the newest checkpoint is damaged, and an older one was used; else empty
};
// Evaluates the newest checkpoint that is not damaged. Returns kDataLoss if there is none, or if no record
// matches the schema.
Result<Evaluation> Evaluate(const Job& job, const engine::PlanOptions& plan);
// The same for these parameters.
Result<Evaluation> Evaluate(const Job& job, const engine::PlanOptions& plan,
                            protocol::Parameters& parameters);

// Adds the evaluation to a job's summary (docs/status.md).
void AddToSummary(const Evaluation& evaluation, nlohmann::ordered_json* summary);

// `leat export`: a checkpoint as an ONNX file.

struct Exported {
  std::string file;     // its content
  std::string warning;  // the newest checkpoint is damaged, and an older one was used; else empty
};
// The ONNX file of the network with these values, for batches of `batch` rows (0: any number). `variables`:
// row-major, in the order of Job::Slices. Throws std::invalid_argument if the network cannot be exported.
std::string OnnxOf(const Job& job, const std::vector<std::vector<float>>& variables, int64_t batch);
// The same with the newest checkpoint that is not damaged. Returns kNotFound if there is no checkpoint,
// kDataLoss if all are damaged.
Result<Exported> ExportOnnx(const Job& job, int64_t batch);

}  // namespace leat::job
