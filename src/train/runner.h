// `leat train` and `leat demo`: a whole job on this machine, every role a process of its own.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan.h"
#include "protocol/parameters.h"
#include "train/job.h"

namespace leat::train {

struct RunnerOptions {
  JobSource source;
  // How the coordinator's process is told of the same source: a file, or an option that names a built-in job.
  std::vector<std::string> source_arguments;
  JobOverrides overrides;  // directory empty: a new one below leat-jobs/
  bool json = false;       // one JSON object as the last line of stdout; progress goes to stderr then
  std::string listen = "127.0.0.1:0";  // of the coordinator
  uint64_t pause_at = 0;               // CoordinatorOptions::pause_at
  engine::PlanOptions plan;            // for the evaluation at the end
};

// Returns the exit status: 0 done or stopped by Ctrl-C with a checkpoint, 1 failed. Throws
// std::invalid_argument on what the user got wrong, before any process is started and anything is written but
// the job's directory.
int RunLocally(const RunnerOptions& options);

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

// Writes the newest checkpoint as an ONNX file for batches of that many rows, 0: of any number; returns its
// bytes. kNotFound when there is no checkpoint; throws std::invalid_argument when the network cannot be
// written.
Result<uint64_t> ExportOnnx(const Job& job, const std::string& path, int64_t batch);

}  // namespace leat::train
