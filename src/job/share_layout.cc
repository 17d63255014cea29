#include "job/share_layout.h"

#include <utility>
#include <vector>

namespace leat::job {
namespace {

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

}  // namespace leat::job
