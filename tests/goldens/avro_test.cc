// Compares decoded Avro records with what fastavro reads.
#include <gtest/gtest.h>

#include "golden.h"
#include "stream/decode/decoder.h"

namespace leat::goldens {
namespace {

stream::RecordBatch BatchOf(const nlohmann::json& records) {
  stream::RecordBatch batch;
  for (const std::string hex : records) {
    for (size_t i = 0; i < hex.size(); i += 2)
      batch.data.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    batch.offsets.push_back(batch.data.size());
  }
  batch.data.resize(batch.data.size() + stream::RecordBatch::kPadding);
  return batch;
}

TEST(AvroGolden, RowsAreThoseOfFastavro) {
  const auto cases = Read("avro.json");
  ASSERT_GE(cases.size(), 7u);
  for (const auto& golden : cases) {
    const std::string name = golden["schema"]["name"];
    SCOPED_TRACE(name);
    auto schema = stream::Schema::FromConfig(Config::Parse(
        "format: avro\navro: {schema: golden.avsc}\nfields: " + golden["fields"].get<std::string>(), name));
    (void)stream::UseAvro({{0, golden["schema"].dump()}}, &schema);
    stream::DecodedRows rows;
    MakeDecoder(schema)->Decode(BatchOf(golden["records"]), &rows);
    std::vector<float> features, labels;
    std::vector<std::string> dead, reasons;
    for (const auto& row : golden["rows"]) {
      if (row.contains("dead")) {
        dead.push_back(row["dead"]);
        continue;
      }
      for (const float x : row["features"]) features.push_back(x);
      for (const float x : row["labels"]) labels.push_back(x);
    }
    for (const auto& letter : rows.dead) reasons.push_back(letter.reason);
    EXPECT_EQ(reasons, dead);
    EXPECT_EQ(rows.features, features);
    EXPECT_EQ(rows.labels, labels);
  }
}

}  // namespace
}  // namespace leat::goldens
