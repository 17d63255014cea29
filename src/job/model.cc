#include "job/model.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>

#include "base/text.h"
#include "compute/onnx/export.h"
#include "compute/onnx/network.h"
#include "job/extensions/extensions.h"
#include "job/input/input_files.h"
#include "storage/checkpoint/store.h"
#include "stream/decode/decoder.h"
#include "train/step/trainer.h"

namespace leat::job {
namespace {

// A label that is no class of the model's is a dead letter, so the schema has to know the classes.
void FitLabels(const Config& config, const nn::Model& model, stream::Schema* schema) {
  if (model.task() == nn::Task::kNone) return;
  if (!schema->has_label())
    config.Fail("the loss " + std::string(fields::NameOf(model.loss().kind)) +
                " needs a field with role: label");
  if (model.classes() == 0) return;
  for (auto& field : schema->fields) {
    if (field.labels() == 0) continue;
    if (field.type == stream::Field::Type::kNumber && field.classes == 0) field.classes = model.classes();
    if (field.label_classes() != model.classes()) {
      throw std::invalid_argument(StrCat(field.where, ": label '", field.name, "' has ",
                                         field.label_classes(), " classes, the model tells ", model.classes(),
                                         " apart"));
    }
    field.CheckFallback();
  }
}

// Ids index a table of the model. Decoders check them, so a field's bound has to be within that of the table.
void CheckIds(const nn::Model& model, const stream::Schema& schema) {
  const auto limits = model.feature_ids();
  if (limits.empty()) return;
  size_t first = 0;
  for (const auto& field : schema.fields) {
    const auto own = std::span(limits).subspan(first, field.features());
    first += own.size();
    uint32_t limit = 0;
    for (const uint32_t ids : own)
      if (ids > 0 && (limit == 0 || ids < limit)) limit = ids;
    if (limit == 0) continue;
    const std::string wanted = StrCat("the model's first layer takes ids below ", limit);
    if (field.ids() == 0) {
      throw std::invalid_argument(StrCat(field.where, ": ", wanted, ", which '", field.name,
                                         "' are not; {type: id, below: ", limit, "}?"));
    }
    if (field.ids() > limit) {
      throw std::invalid_argument(
          StrCat(field.where, ": '", field.name, "' makes ids below ", field.ids(), "; ", wanted));
    }
  }
}

using Feature = metrics::ShareLayout::Feature;

// Features of the field, the first of them at `column`.
std::vector<Feature> FeaturesOf(const stream::Field& field, uint32_t column) {
  using Type = stream::Field::Type;
  if (field.type == Type::kCategory) {
    return {{.name = field.name,
             .kind = Feature::Kind::kOneHot,
             .column = column,
             .categories = field.features()}};
  }
  if (field.list || field.width != 1) return {};
  if (field.type == Type::kId)
    return {{.name = field.name, .kind = Feature::Kind::kId, .column = column, .categories = field.below}};
  if (field.type != Type::kNumber) return {};
  if (field.period == 0) return {{.name = field.name, .column = column}};
  return {{.name = field.name + ".sin", .column = column},
          {.name = field.name + ".cos", .column = column + 1}};
}

}  // namespace

nn::LayerFiles LayerFilesOf(const std::string& data, const nn::LayerFiles::Copies& copies,
                            std::vector<Asset>* assets) {
  nn::LayerFiles files{.data = data};
  for (Asset& asset : *assets) {
    const auto copy = copies.find(asset.path);
    if (copy != copies.end()) asset.file = copy->second;
    if (const Status good = copy != copies.end() ? Status() : CheckAsset(asset); !good.ok())
      throw std::invalid_argument(good.message());
    files.copies[asset.path] = asset.file;
  }
  return files;
}

std::shared_ptr<const nn::Model> BuildModel(const Config& job, nn::LayerFiles files, uint64_t seed,
                                            stream::Schema* schema) {
  std::vector<nn::LayerKind> kinds(onnx::LayerKinds().begin(), onnx::LayerKinds().end());
  kinds.insert(kinds.end(), OwnExtensions().layers.begin(), OwnExtensions().layers.end());
  auto model = std::make_shared<const nn::Model>(
      nn::Model::FromConfig(job.At("model"), {.features = schema->features(),
                                              .labels = schema->labels(),
                                              .running = schema->running_features(),
                                              .files = std::move(files),
                                              .kinds = kinds,
                                              .seed = seed}));
  FitLabels(job.At("schema"), *model, schema);
  CheckIds(*model, *schema);
  return model;
}

stream::Schema DecodingSchema(const Config& job, std::string* without_model) {
  const Config resolved = job.Has(kResolved) ? job.At(kResolved) : Config::EmptyMap(kResolved);
  const std::string data = resolved.String("data", "");
  auto schema = stream::Schema::FromConfig(job.At("schema"));
  (void)ReadSchemaFiles(resolved, data, &schema);
  if (!job.Has("model")) return schema;
  try {
    stream::Schema with_classes = schema;
    std::vector<Asset> assets = ReadAssets(resolved);
    (void)BuildModel(job, LayerFilesOf(data, {}, &assets), 1, &with_classes);
    return with_classes;
  } catch (const std::invalid_argument& error) {
    *without_model = error.what();
    return schema;
  }
}

metrics::ShareLayout ShareLayoutOf(const stream::Schema& schema, const nn::Model& model) {
  metrics::ShareLayout layout{.width = schema.features(),
                              .labels = schema.has_label() ? model.labels() : 0,
                              .classes = model.classes()};
  uint32_t column = 0;
  for (const auto& field : schema.fields) {
    const uint32_t width = field.features();
    if (width == 0) continue;
    for (Feature& feature : FeaturesOf(field, column)) {
      if (layout.features.size() < metrics::ShareLayout::kMaxFeatures)
        layout.features.push_back(std::move(feature));
    }
    column += width;
  }
  return layout;
}

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
  if (job.model->classes() > 0)
    total.accuracy = static_cast<double>(correct) / (events * job.model->labels());
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
