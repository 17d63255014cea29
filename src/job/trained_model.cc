#include "job/trained_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "compute/onnx/export.h"
#include "storage/checkpoint/store.h"
#include "stream/decode/decoder.h"
#include "train/step/trainer.h"

namespace leat::job {

Result<Evaluation> Evaluate(const Job& job, const engine::PlanOptions& plan) {
  const auto table = job.Slices();
  LEAT_ASSIGN_OR_RETURN(const auto newest, checkpoint::ReadNewestVariables(job.directory, table));
  protocol::Parameters parameters(table);
  for (size_t v = 0; v < newest.variables.size(); ++v)
    std::ranges::copy(newest.variables[v], parameters.values(v).begin());
  LEAT_ASSIGN_OR_RETURN(Evaluation evaluation, Evaluate(job, plan, parameters));
  evaluation.warning = newest.warning;
  return evaluation;
}

Result<Evaluation> Evaluate(const Job& job, const engine::PlanOptions& plan,
                            protocol::Parameters& parameters) {
  LEAT_ASSIGN_OR_RETURN(const auto source, stream::OpenFiles(job.EvaluationFiles()));
  LEAT_ASSIGN_OR_RETURN(const auto ranges, source->Ranges());
  const auto decoder = stream::MakeDecoder(job.EvaluationSchema());
  step::Trainer trainer(*job.model, parameters, job.Plan(plan));
  stream::RecordBatch records;
  stream::DecodedRows rows;
  Evaluation total;
  double loss_sum = 0;
  uint64_t correct = 0;
  bool finite = true;
  for (const auto& range : ranges) {
    // A share at a time, so that a large file does not have to be decoded whole.
    constexpr uint64_t kShare = 4096;
    for (uint64_t at = range.begin; at < range.end; at += kShare) {
      rows.clear();
      LEAT_RETURN_IF_ERROR(source->Read(range.partition, at, std::min(at + kShare, range.end), &records));
      decoder->Decode(records, &rows);
      total.dead_letters += rows.dead.size();
      std::vector<uint32_t> order(rows.rows);
      std::iota(order.begin(), order.end(), 0u);
      for (size_t i = 0; i < order.size(); i += job.batch_size) {
        const auto batch = std::span(order).subspan(i, std::min<size_t>(job.batch_size, order.size() - i));
        const auto step = trainer.Score({.features = rows.features, .labels = rows.labels, .truth = {}},
                                        batch, job.batch_size);
        total.rows += step.events;
        finite = finite && step.finite;
        loss_sum += step.loss_sum;
        correct += step.correct;
      }
    }
  }
  if (total.rows == 0) return Status(Code::kDataLoss, "no record of the evaluate files fits the schema");
  const auto events = static_cast<double>(total.rows);
  if (job.model->classes() > 0) {
    total.accuracy = static_cast<double>(correct) / (events * job.model->labels());
  }
  if (finite) total.loss = loss_sum / events;
  return total;
}

void AddToSummary(const Evaluation& evaluation, nlohmann::ordered_json* summary) {
  auto& s = *summary;
  s["test_rows"] = evaluation.rows;
  if (evaluation.dead_letters > 0) s["test_dead_letters"] = evaluation.dead_letters;
  if (evaluation.accuracy) s["test_accuracy"] = *evaluation.accuracy;
  s["test_loss"] = nullptr;
  if (evaluation.loss) s["test_loss"] = *evaluation.loss;
}

std::string OnnxOf(const Job& job, const std::vector<std::vector<float>>& variables, int64_t batch) {
  return onnx::Export(*job.model, variables, {.batch = batch, .name = job.name});
}

Result<Exported> ExportOnnx(const Job& job, int64_t batch) {
  LEAT_ASSIGN_OR_RETURN(const auto newest, checkpoint::ReadNewestVariables(job.directory, job.Slices()));
  return Exported{OnnxOf(job, newest.variables, batch), newest.warning};
}

}  // namespace leat::job
