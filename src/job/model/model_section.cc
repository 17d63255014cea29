#include "job/model/model_section.h"

#include <span>
#include <stdexcept>
#include <utility>

#include "compute/onnx/network.h"
#include "job/extensions/extensions.h"
#include "job/input/input_files.h"

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
      throw std::invalid_argument(field.where + ": label '" + field.name + "' has " +
                                  std::to_string(field.label_classes()) + " classes, the model tells " +
                                  std::to_string(model.classes()) + " apart");
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
    const std::string wanted = "the model's first layer takes ids below " + std::to_string(limit);
    if (field.ids() == 0) {
      throw std::invalid_argument(field.where + ": " + wanted + ", which '" + field.name +
                                  "' are not; {type: id, below: " + std::to_string(limit) + "}?");
    }
    if (field.ids() > limit) {
      throw std::invalid_argument(field.where + ": '" + field.name + "' makes ids below " +
                                  std::to_string(field.ids()) + "; " + wanted);
    }
  }
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

}  // namespace leat::job
