#include "stream/bots/testing.h"

#include <gtest/gtest.h>

#include <cmath>

#include "stream/decode/decoder.h"
#include "stream/schema.h"
#include "stream/testing.h"

namespace leat::stream {
namespace {

TEST(SyntheticEvents, DecodeByTheirSchemaAndComeOutTheSameAgain) {
  const Schema schema = Schema::FromConfig(Config::Parse(SyntheticEvents::SchemaYaml(5), "test"));
  SyntheticEvents events(4, 5), again(4, 5);
  std::vector<std::string> records(5000);
  for (std::string& record : records) {
    events.Next(&record);
    std::string same;
    again.Next(&same);
    ASSERT_EQ(record, same);
  }
  DecodedRows rows;
  MakeDecoder(schema)->Decode(BatchOf(records), &rows);
  ASSERT_EQ(rows.rows, records.size());
  double sum = 0, squares = 0, positive = 0, right = 0;
  for (size_t i = 0; i < rows.rows; ++i) {
    const float* x = &rows.features[5 * i];
    for (int k = 0; k < 5; ++k) {
      sum += x[k];
      squares += x[k] * x[k];
    }
    positive += rows.labels[i];
    right += (x[0] * x[1] + x[2] - 0.5f * (x[3] * x[3] - 1) > 0) == (rows.labels[i] == 1);
  }
  const auto n = static_cast<double>(rows.rows);
  EXPECT_NEAR(sum / (5 * n), 0, 0.03);
  EXPECT_NEAR(squares / (5 * n), 1, 0.03);
  EXPECT_NEAR(positive / n, 0.5, 0.05);
  EXPECT_GT(right / n, 0.88);
}

TEST(SyntheticEvents, TheCounterEventFitsItsSchema) {
  const Schema schema = Schema::FromConfig(Config::Parse(kCounterSchemaYaml, "test"));
  DecodedRows rows;
  MakeDecoder(schema)->Decode(BatchOf({kCounterEvent}), &rows);
  EXPECT_EQ(rows.rows, 1u);
}

}  // namespace
}  // namespace leat::stream
