#include "stream/decode/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/config/config.h"
#include "stream/testing.h"

namespace leat::stream {
namespace {

TextHint SeeAll(const std::string& format, const std::vector<std::string>& records) {
  const Schema schema = Schema::FromConfig(Config::Parse(
      "format: " + format + "\nfields: {x: {type: number}, y: {type: number, role: label}}\n", "job.yaml"));
  DecodedRows rows;
  MakeDecoder(schema)->Decode(BatchOf(records), &rows);
  TextHint hint(format == "csv");
  for (const auto& letter : rows.dead) hint.See(letter);
  hint.SeeFitting(rows.rows);
  return hint;
}

TEST(TextHint, NamesTheFieldAndTheValuesSeen) {
  const std::string expected = "; `type: category, values: [no, yes]` would read 'y'";
  EXPECT_EQ(SeeAll("csv", {"1,yes", "2,no", "3,yes", "a,1"}).Describe(), expected);
  EXPECT_EQ(SeeAll("json", {R"({"x": 1, "y": "yes"})", R"({"x": 2, "y": "no"})"}).Describe(), expected);
  EXPECT_EQ(SeeAll("csv", {"1,a b", "1,\"c:d\"", "1,-2x"}).Describe(),
            "; `type: category, values: [\"-2x\", \"a b\", \"c:d\"]` would read 'y'");
}

TEST(TextHint, IsSilentWhereThereIsNoText) {
  EXPECT_EQ(TextHint().Describe(), "");
  EXPECT_EQ(SeeAll("csv", {"1,2", "?,2", "NA,1", ",1", "1,2,3"}).Describe(), "") << "missing values";
  EXPECT_EQ(SeeAll("csv", {"x,y", "1,2"}).Describe(), "") << "a header";
}

TEST(TextHint, NumbersWithACommaNeedASetting) {
  EXPECT_EQ(SeeAll("csv", {"\"1,5\",1", "\"2,5\",0"}).Describe(),
            "; `decimal: \",\"`, a setting of the schema, would read 'x'");
  EXPECT_THAT(SeeAll("json", {R"({"x": "1,5", "y": 1})"}).Describe(), testing::HasSubstr("type: category"));
}

// As categories they would be lost, one and all.
TEST(TextHint, NumbersThatFitMakeNoCategories) {
  EXPECT_EQ(SeeAll("csv", {"1,yes", "2,no", "3,1"}).Describe(), "");
}

TEST(TextHint, ACommaMaySeparateThousands) {
  EXPECT_EQ(SeeAll("csv", {"\"1,100\",1", "\"12,345,678\",0"}).Describe(), "");
  EXPECT_THAT(SeeAll("csv", {"\"1,100\",1", "\"1,25\",0"}).Describe(), testing::HasSubstr("decimal"));
}

TEST(TextHint, ListsAFewOfManyValues) {
  std::vector<std::string> records;
  for (char c = 'a'; c <= 'z'; ++c) records.push_back(std::string("1,word_") + c);
  EXPECT_EQ(SeeAll("csv", records).Describe(), "") << "all differ, as names and identifiers do";
  records.insert(records.end(), {"1,word_a", "1,word_b"});
  EXPECT_EQ(
      SeeAll("csv", records).Describe(),
      "; `type: category, values: [word_a, word_b, word_c, word_d, word_e, word_f, ...]` would read 'y'");
}

TEST(TextHint, MarksOfMissingValues) {
  for (const char* text : {"", "NA", " NA ", "nan", "-1.#IND", "1.#QNAN", "#N/A N/A", "?", "  "})
    EXPECT_TRUE(IsMissing(text)) << text;
  for (const char* text : {"na", "Na", "*", "NaT", ".A", "._", "none"}) {
    EXPECT_FALSE(IsMissing(text)) << text;
    EXPECT_TRUE(IsMissingNumber(text)) << text;
  }
  for (const char* text : {"+", ".5", ".AB", "****", "nab"}) EXPECT_FALSE(IsMissingNumber(text)) << text;
}

TEST(TextHint, AZeroBeforeTheCommaSeparatesNoThousands) {
  EXPECT_THAT(SeeAll("csv", {"\"0,100\",1", "\"0,345\",0"}).Describe(), testing::HasSubstr("decimal"));
}

TEST(YamlText, ReadsAsTheSameText) {
  for (const std::string text : {"yes", "no", "null", "~", "", " a", "<=50K", "a: b", "#", "1.0", "-", "\"\\",
                                 "x\ty", "é", "[a]", "true", "*", "a,b", "'q'"}) {
    const auto list =
        Config::Parse("values: [" + YamlText(text) + ", " + YamlText(text) + "]", "t").At("values");
    ASSERT_EQ(list.size(), 2u) << text;
    EXPECT_EQ(list[0].String(), text);
  }
}

}  // namespace
}  // namespace leat::stream
