#include "job/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing.h"
#include "job/testing.h"
#include "stream/decode/decoder.h"
#include "stream/testing.h"

namespace leat::job {

namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

constexpr const char* kClassJob = R"(stream: {topic: t, bots: {events: 10}}
schema: {format: json, fields: {a: {type: number}, y: {type: number, role: label}}}
model: {layers: [dense: {units: 2}], loss: softmax_cross_entropy}
optimizer: {type: sgd}
)";

stream::Schema SchemaIn(const std::string& yaml, std::string* without_model) {
  return DecodingSchema(Config::Parse(yaml, "job.yaml"), without_model);
}

std::vector<std::string> ReasonsFor(const stream::Schema& schema) {
  stream::DecodedRows rows;
  std::vector<std::string> records;
  for (const char* y : {"0", "1", "2", "1.5", "-1", "0"})
    records.push_back(R"({"a":1,"y":)" + std::string(y) + "}");
  stream::MakeDecoder(schema)->Decode(stream::BatchOf(records), &rows);
  std::vector<std::string> reasons;
  for (const auto& dead : rows.dead) reasons.push_back(dead.reason);
  return reasons;
}

TEST(DecodingSchema, IsThatOfTheJob) {
  std::string without_model;
  const stream::Schema schema = SchemaIn(kClassJob, &without_model);
  EXPECT_EQ(without_model, "");
  EXPECT_EQ(schema.hash(), Parse(kClassJob).schema.hash());
  EXPECT_EQ(schema.classes(), 2u);
  const std::string range = " is not a whole number from 0 to 1";
  EXPECT_THAT(ReasonsFor(schema), ElementsAre("y: 2" + range, "y: 1.5" + range, "y: -1" + range));
}

TEST(DecodingSchema, NeitherModelNorStreamIsNeeded) {
  const std::string regression =
      Replaced(kClassJob, "{units: 2}], loss: softmax_cross_entropy", "{units: 1}], loss: squared_error");
  const std::string text = kClassJob;
  const std::string without = text.substr(0, text.find("model:")),
                    schema_alone = without.substr(text.find("schema:"));
  for (const std::string& yaml : {regression, without, schema_alone}) {
    std::string without_model;
    EXPECT_THAT(ReasonsFor(SchemaIn(yaml, &without_model)), ElementsAre()) << yaml;
    EXPECT_EQ(without_model, "") << yaml;
  }
}

TEST(DecodingSchema, SaysWhyTheModelCannotBeBuilt) {
  std::string reason;
  EXPECT_THAT(ReasonsFor(SchemaIn(Replaced(kClassJob, "dense", "dens"), &reason)), ElementsAre());
  EXPECT_THAT(reason, StartsWith("job.yaml:3: "));
  EXPECT_THAT(
      ReasonsFor(SchemaIn(Replaced(kClassJob, "role: label", "role: label, classes: 3"), &reason)),
      ElementsAre("y: 1.5 is not a whole number from 0 to 2", "y: -1 is not a whole number from 0 to 2"));
  EXPECT_EQ(reason, "job.yaml:2: label 'y' has 3 classes, the model tells 2 apart");
  EXPECT_NE(Mistake([&] { SchemaIn(Replaced(kClassJob, "a: {type: number}", "a: {type: nmber}"), &reason); }),
            "");
}

}  // namespace

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
