#include "stream/synthetic.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/config.h"
#include "stream/schema.h"
#include "stream/test_util.h"

namespace leat::stream {
namespace {

TEST(SyntheticEvents, FitTheirSchemaAndCanBeLearnt) {
  constexpr size_t kEvents = 5000;
  const Schema schema = Schema::FromConfig(Config::Parse(SyntheticEvents::SchemaYaml(), "synthetic"));
  ASSERT_EQ(schema.features(), 30u);
  SyntheticEvents events(4);
  std::vector<std::string> records(kEvents);
  for (auto& record : records) events.Next(&record);
  DecodedRows rows;
  MakeDecoder(schema)->Decode(BatchOf(records), &rows);
  ASSERT_TRUE(rows.dead.empty()) << rows.dead[0].reason;
  ASSERT_EQ(rows.rows, kEvents);

  // The function behind the label, without its noise, is right far more often than the more frequent class.
  size_t right = 0, positive = 0;
  double sum = 0, squares = 0;
  for (size_t i = 0; i < kEvents; ++i) {
    const float* x = &rows.features[i * 30];
    const bool guess = x[0] * x[1] + x[2] - 0.5f * (x[3] * x[3] - 1) > 0;
    right += guess == (rows.labels[i] > 0.5f);
    positive += rows.labels[i] > 0.5f;
    sum += x[29];
    squares += x[29] * x[29];
  }
  EXPECT_GT(right, kEvents * 85 / 100);
  EXPECT_GT(positive, kEvents * 4 / 10);
  EXPECT_LT(positive, kEvents * 7 / 10);
  EXPECT_NEAR(sum / kEvents, 0, 0.06);
  EXPECT_NEAR(squares / kEvents, 1, 0.1);
}

TEST(SyntheticEvents, SameSeedSameEvents) {
  std::string a, b, c;
  SyntheticEvents(1, 3).Next(&a);
  SyntheticEvents(1, 3).Next(&b);
  SyntheticEvents(2, 3).Next(&c);
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
}

}  // namespace
}  // namespace leat::stream
