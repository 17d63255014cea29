// The model of a job: the section `model:`, what the schema takes from it, and what a trained one is good
// for.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/config/config.h"
#include "base/metrics/share.h"
#include "base/status.h"
#include "compute/engine/plan.h"
#include "compute/nn/model.h"
#include "job/job.h"
#include "protocol/parameters.h"
#include "stream/schema.h"

namespace leat::job {

// All throw std::invalid_argument with the place and the values.

// Where this host has the files of the model: those of `copies`, and else those of `assets`, which must have
// the job's identities. Names the copies in `assets`.
nn::LayerFiles LayerFilesOf(const std::string& data, const nn::LayerFiles::Copies& copies,
                            std::vector<Asset>* assets);

// Builds the model of a job for a schema. Labels of a model with classes become classes of the schema, so any
// other value makes a dead letter. `seed`: of the job.
std::shared_ptr<const nn::Model> BuildModel(const Config& job, nn::LayerFiles files, uint64_t seed,
                                            stream::Schema* schema);

// The schema by which the workers of a job decode records, from the file of the job alone. A model that
// cannot be built here sets `*without_model` to the reason, and its classes are missing. A file may lack a
// model.
stream::Schema DecodingSchema(const Config& job, std::string* without_model);

// The labels and features of a job whose distributions are compared between workers.

// The labels of the model, and the first fields of the schema that are one number, category or id, at most
// ShareLayout::kMaxFeatures. Lists, texts, images and other arrays are left out. A number with a period is
// two features: NAME.sin and NAME.cos.
metrics::ShareLayout ShareLayoutOf(const stream::Schema& schema, const nn::Model& model);

// A trained model: its evaluation on files that it was not trained on, and its ONNX file.

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
