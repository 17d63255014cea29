#include "job/share_layout.h"

#include <gtest/gtest.h>

#include "job/testing.h"

namespace leat::job {
namespace {

using Feature = metrics::ShareLayout::Feature;
using Kind = Feature::Kind;

metrics::ShareLayout LayoutOf(const std::string& fields, const std::string& last) {
  const Job job = Parse("name: j\nstream: {topic: t}\nschema:\n  format: json\n  fields:\n" + fields +
                        "model:\n  layers:\n" + last + "optimizer: {type: sgd, learning_rate: 0.1}\n");
  return ShareLayoutOf(job.schema, *job.model);
}

TEST(ShareLayout, HasSingleNumbersCategoriesAndIds) {
  const auto layout = LayoutOf(
      "    amount: {type: number}\n"
      "    scores: {type: number, length: 8}\n"
      "    hour: {type: number, period: 24}\n"
      "    note: {role: ignore}\n"
      "    country: {type: category, values: [ES, MX]}\n"
      "    words: {type: text, buckets: 10}\n"
      "    device: {type: category, buckets: 16}\n"
      "    shop: {type: id, below: 500}\n"
      "    basket: {type: id, below: 90, length: 4}\n"
      "    kind: {type: number, role: label, classes: 3}\n"
      "    age: {type: number}\n",
      "    - dense: {units: 3}\n  loss: softmax_cross_entropy\n");
  EXPECT_EQ(layout.labels, 1u);
  EXPECT_EQ(layout.classes, 3u);
  // By columns: amount 0, scores 1, hour 9, country 11, words 13, device 22, shop 38, basket 39, age 43.
  EXPECT_EQ(layout.width, 44u);
  const std::vector<Feature> expected{
      {.name = "amount", .column = 0},
      {.name = "hour.sin", .column = 9},
      {.name = "hour.cos", .column = 10},
      {.name = "country", .kind = Kind::kOneHot, .column = 11, .categories = 2},
      {.name = "device", .kind = Kind::kOneHot, .column = 22, .categories = 16},
      {.name = "shop", .kind = Kind::kId, .column = 38, .categories = 500},
      {.name = "age", .column = 43}};
  EXPECT_EQ(layout.features, expected);
}

TEST(ShareLayout, HasTheLabelsOfTheModel) {
  const std::string fields =
      "    amount: {type: number}\n"
      "    a: {type: number, role: label}\n"
      "    b: {type: number, role: label}\n";
  auto layout = LayoutOf(fields, "    - dense: {units: 2}\n  loss: sigmoid_cross_entropy\n");
  EXPECT_EQ(layout.labels, 2u);
  EXPECT_EQ(layout.classes, 2u);
  layout = LayoutOf(fields, "    - dense: {units: 2}\n  loss: squared_error\n");
  EXPECT_EQ(layout.labels, 2u);
  EXPECT_EQ(layout.classes, 0u) << "any number";
  layout = LayoutOf("    amount: {type: number}\n",
                    "    - dense: {units: 2}\n  loss: {type: negative_sum, reduction: sum}\n");
  EXPECT_EQ(layout.labels, 0u);
}

TEST(ShareLayout, EndsAfterTheFirstFeatures) {
  std::string fields;
  for (int i = 0; i < 70; ++i) fields += "    x" + std::to_string(i) + ": {type: number}\n";
  fields += "    y: {type: number, role: label}\n";
  const auto layout = LayoutOf(fields, "    - dense: {units: 1}\n  loss: squared_error\n");
  EXPECT_EQ(layout.width, 70u);
  ASSERT_EQ(layout.features.size(), metrics::ShareLayout::kMaxFeatures);
  EXPECT_EQ(layout.features.back().name, "x63");
}

}  // namespace
}  // namespace leat::job
