#include "stream/decode/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "stream/testing.h"

namespace leat::stream {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::FloatNear;
using ::testing::HasSubstr;

Schema TensorSchema(const std::string& fields) {
  return Schema::FromConfig(Config::Parse("format: tensor\nfields:\n" + fields, "job.yaml"));
}

template <class... T>
std::string TensorRecord(T... values) {
  std::string out;
  (out.append(reinterpret_cast<const char*>(&values), sizeof(values)), ...);
  return out;
}

DecodedRows Decoded(const std::string& fields, const std::string& record) {
  DecodedRows rows;
  MakeDecoder(TensorSchema(fields))->Decode(BatchOf({record}), &rows);
  return rows;
}

TEST(TensorDecoder, ReadsEveryType) {
  const DecodedRows rows = Decoded(
      R"(
  a: {type: number, dtype: f32, shape: [1, 2], mean: 1, std: 2}
  b: {type: number, dtype: f64}
  c: {type: number, dtype: bf16}
  d: {type: number, dtype: f16, width: 4}
  e: {type: number, dtype: i8}
  f: {type: id, dtype: i16, below: 9, width: 2}
  skipped: {role: ignore, dtype: i32, width: 2}
  g: {type: category, dtype: i64, values: ["-7", "8"]}
  h: {type: number, dtype: u8, log: true, width: 2}
  i: {type: number, dtype: u16}
  j: {type: number, dtype: u32}
  p: {type: number, dtype: f32, width: 2, period: 4}
  y: {type: number, role: label, classes: 5, dtype: u64}
)",
      TensorRecord(5.0f, -1.0f, 0.25, uint16_t{0x3fc0}, uint16_t{0x3c00}, uint16_t{0xc100}, uint16_t{0x0001},
                   uint16_t{0x8000}, int8_t{-3}, int16_t{8}, int16_t{0}, int32_t{1}, int32_t{2}, int64_t{-7},
                   uint8_t{0}, uint8_t{1}, uint16_t{60000}, uint32_t{4000000000}, 1.0f, 2.0f, uint64_t{4}));
  ASSERT_EQ(rows.rows, 1u) << rows.dead[0].reason;
  EXPECT_THAT(rows.features, ElementsAre(2, -1, 0.25, 1.5, 1, -2.5, 0x1p-24f, 0, -3, 8, 0, 1, 0, 0,
                                         FloatEq(std::numbers::ln2_v<float>), 60000, 4e9f, 1,
                                         FloatNear(0, 1e-6f), FloatNear(0, 1e-6f), -1));
  EXPECT_THAT(rows.labels, ElementsAre(4));
}

TEST(TensorDecoder, SaysWhyARecordIsDead) {
  const auto reason = [](const std::string& field, const std::string& record) {
    const DecodedRows rows = Decoded("  x: " + field + "\n", record);
    return rows.dead.empty() ? "" : rows.dead[0].reason;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const char* field :
       {"{type: number, dtype: f32, width: 3}", "{type: number, dtype: f32, width: 3, mean: 2}"}) {
    EXPECT_EQ(reason(field, TensorRecord(1.0f, 2.0f, 3.0f)), "");
    EXPECT_EQ(reason(field, TensorRecord(1.0f, 2.0f)), "has 8 bytes instead of 12");
    EXPECT_EQ(reason(field, TensorRecord(1.0f, nan, 3.0f)), "x: is not a number, element 1");
    EXPECT_EQ(reason(field, TensorRecord(1.0f, 2.0f, -inf)), "x: -inf is too large, element 2");
  }
  EXPECT_EQ(reason("{type: number, dtype: f32, std: 0.01}", TensorRecord(3e38f)),
            "x: 3.00000001e+38 is too large");
  EXPECT_EQ(reason("{type: id, dtype: i8, below: 4, width: 2}", TensorRecord(int8_t{3}, int8_t{-1})),
            "x: -1 is not a whole number from 0 to 3, element 1");
  EXPECT_EQ(reason("{type: number, dtype: f16}", TensorRecord(uint16_t{0x7c00})), "x: inf is too large");
}

TEST(TensorDecoder, LeavesFieldsThatAreNotInTheRecord) {
  const Schema schema =
      TensorSchema("  sent: {type: number, from: timestamp}\n  x: {type: number, dtype: u8}\n");
  DecodedRows rows;
  MakeTensorDecoder(schema)->Decode(BatchOf({TensorRecord(uint8_t{3})}), &rows);
  ASSERT_EQ(rows.rows, 1u);
  EXPECT_THAT(rows.features, ElementsAre(0, 3));
}

TEST(TensorDecoder, RefusesSettingsThatDoNotFit) {
  const auto mistake = [](const std::string& field) {
    return Mistake([&] { TensorSchema("  x: " + field); });
  };
  EXPECT_THAT(mistake("{type: number}"), HasSubstr("dtype"));
  EXPECT_THAT(mistake("{type: number, dtype: f23}"), HasSubstr("did you mean 'f32'?"));
  EXPECT_THAT(mistake("{type: number, dtype: f32, shape: [2000, 2000]}"), HasSubstr("1 to 1048576 elements"));
  EXPECT_THAT(mistake("{type: number, dtype: f32, shape: [2], width: 2}"), HasSubstr("a shape or a width"));
  EXPECT_THAT(mistake("{type: category, dtype: f32, values: [a]}"),
              HasSubstr("a category is a whole number"));
  EXPECT_THAT(mistake("{type: number, dtype: f32, default: 0}"),
              HasSubstr("default is for values that can be missing"));
  EXPECT_THAT(mistake("{type: number, role: label, dtype: f32, width: 2}"), HasSubstr("have more than one"));
  EXPECT_THAT(mistake("{type: number, from: timestamp, dtype: f32}"), HasSubstr("it has no dtype"));
  EXPECT_THAT(mistake("{type: number, dtype: f32, length: 2}"), HasSubstr("lists are for the formats"));
}

}  // namespace
}  // namespace leat::stream
