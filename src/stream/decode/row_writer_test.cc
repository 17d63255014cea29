#include "stream/decode/row_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/rng.h"

namespace leat::stream {
namespace {

std::string RandomText(Rng& rng) {
  std::string text(rng.Below(21), 'a');
  for (char& c : text) c = rng.Chance(0.15) ? 'b' : 'a';
  return text;
}

// Few and many values, whose beginnings are often equal.
TEST(FieldWriter, FindsEachValueOfACategoryAndNoOther) {
  Rng rng(6);
  for (int round = 0; round < 300; ++round) {
    std::set<std::string> distinct;
    for (uint64_t i = 0, count = 1 + rng.Below(round % 3 == 0 ? 100 : 12); i < count; ++i)
      distinct.insert(RandomText(rng));
    Field field{.name = "c", .path = {"c"}, .type = Field::Type::kCategory};
    field.values.assign(distinct.begin(), distinct.end());
    const FieldWriter writer(field, 0, 0);
    for (int i = 0; i < 200; ++i) {
      const std::string text = i % 2 == 0 ? RandomText(rng) : field.values[rng.Below(field.values.size())];
      const auto at = std::ranges::find(field.values, text);
      const auto expected = at == field.values.end() ? -1 : at - field.values.begin();
      ASSERT_EQ(writer.PlaceOf(text), expected) << text;
    }
  }
}

// Few values, and more than a table without collisions takes.
TEST(FieldWriter, FindsEachSpellingOfANumberOrBoolean) {
  for (const int more : {0, 100}) {
    Field field{.name = "c", .path = {"c"}, .type = Field::Type::kCategory};
    field.values = {"1.0", "2", "True", "007", "word", "-0.5"};
    for (int i = 0; i < more; ++i) field.values.push_back("other" + std::to_string(i));
    const FieldWriter writer(field, 0, 0);
    for (const char* one : {"1.0", "1", "1e0", "+1", "1.00"}) EXPECT_EQ(writer.PlaceOf(one), 0) << one;
    for (const char* two : {"2", "2.0", "20e-1"}) EXPECT_EQ(writer.PlaceOf(two), 1) << two;
    for (const char* yes : {"True", "true", "TRUE"}) EXPECT_EQ(writer.PlaceOf(yes), 2) << yes;
    EXPECT_EQ(writer.PlaceOf("007"), 3);
    EXPECT_EQ(writer.PlaceOf("word"), 4);
    for (const char* half : {"-0.5", "-.5", "-5e-1"}) EXPECT_EQ(writer.PlaceOf(half), 5) << half;
    for (const char* none : {"7", "01", "3", "false", "Word", "0.5", ""})
      EXPECT_EQ(writer.PlaceOf(none), -1) << none;
  }
}

TEST(FieldWriter, HashesEachSpellingOfANumberIntoOneBucket) {
  Field field{.name = "c", .path = {"c"}, .type = Field::Type::kCategory};
  field.buckets = 1 << 20;
  const FieldWriter writer(field, 0, 0), comma(field, 0, 0, ',');
  for (const char* one : {"1.0", "1e0", "+1"}) EXPECT_EQ(writer.PlaceOf(one), writer.PlaceOf("1")) << one;
  for (const char* yes : {"True", "TRUE"}) EXPECT_EQ(writer.PlaceOf(yes), writer.PlaceOf("true")) << yes;
  EXPECT_EQ(comma.PlaceOf("1,50"), writer.PlaceOf("1.5"));
  const std::set<int32_t> places = {writer.PlaceOf("7"),  writer.PlaceOf("007"),  writer.PlaceOf("07"),
                                    writer.PlaceOf("-7"), writer.PlaceOf("1,50"), writer.PlaceOf("7 ")};
  EXPECT_EQ(places.size(), 6u);
}

TEST(Quoted, ShowsTextAsItIsAndCutsBetweenCharacters) {
  EXPECT_EQ(Quoted("año"), "'año'");
  EXPECT_EQ(Quoted("a\n\x1b[1m\x7f"), "'a??[1m?'");
  EXPECT_EQ(Quoted("a\xc2\x9b\xc2\xa0z"), "'a?\xc2\xa0z'") << "a control character, and a blank";
  EXPECT_EQ(Quoted("caf\xe9"), "'caf?'") << "latin-1";
  EXPECT_EQ(Quoted(std::string(59, 'x') + "ñu"), "'" + std::string(59, 'x') + "...'");
  EXPECT_EQ(Quoted(std::string(58, 'x') + "ñu"), "'" + std::string(58, 'x') + "ñ...'");
  EXPECT_EQ(Quoted(std::string(80, '\x80')), "'...'");
}

TEST(FieldWriter, TakesTheLogarithmAsLog1pDoes) {
  Field field;
  field.log = true;
  const FieldWriter writer(field, 0, 0);
  float feature = -1;
  const Row row{.features = &feature, .labels = nullptr, .truth = nullptr};
  Rng rng(1);
  for (int i = 0; i < 100'000; ++i) {
    const double x = i == 0 ? 0 : rng.Uniform() * std::pow(10, 200 * rng.Uniform() - 100);
    ASSERT_TRUE(writer.WriteNumber(x, row)) << x;
    ASSERT_NEAR(feature, std::log1p(x), 1e-7 * std::log1p(x) + 1e-45) << x;
  }
}

}  // namespace
}  // namespace leat::stream
