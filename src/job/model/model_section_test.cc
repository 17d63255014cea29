#include "job/model/model_section.h"

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
}  // namespace leat::job
