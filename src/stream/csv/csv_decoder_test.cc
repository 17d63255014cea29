#include "stream/decode/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "stream/testing.h"

namespace leat::stream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

Schema CsvSchema(const std::string& settings, const std::string& fields) {
  return Schema::FromConfig(
      Config::Parse("format: csv\n" + settings + "fields: {" + fields + "}\n", "job.yaml"));
}

std::string CsvMistakeIn(const std::string& settings, const std::string& fields = "x: {type: number}") {
  try {
    (void)CsvSchema(settings, fields);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

DecodedRows DecodeCsv(const Schema& schema, const std::vector<std::string>& records) {
  DecodedRows rows;
  MakeDecoder(schema)->Decode(BatchOf(records), &rows);
  return rows;
}

TEST(CsvDecoder, MarksOfMissingNumbersTakeTheDefault) {
  const Schema schema = CsvSchema("", "x: {type: number, default: 7}, y: {type: number}");
  const DecodedRows rows = DecodeCsv(schema, {"1,1", "NA,2", "nan,3", "?,4", "\"null\",5", "N/A,6", "None,7",
                                              "-,8", ",9", "oops,10", "1,NA"});
  EXPECT_THAT(rows.features, ElementsAre(1, 1, 7, 2, 7, 3, 7, 4, 7, 5, 7, 6, 7, 7, 7, 8, 7, 9));
  ASSERT_EQ(rows.dead.size(), 2u);
  EXPECT_EQ(rows.dead[0].reason, "x: 'oops' is not a number");
  EXPECT_EQ(rows.dead[1].reason, "y: 'NA' is not a number; a `default` of the field would take its place");
}

TEST(CsvDecoder, MissingIsWhatTheSettingSays) {
  const Schema schema =
      CsvSchema("missing: [\"-999\", none]\n",
                "x: {type: number, default: 0}, c: {type: category, values: [a, NA], default: a}");
  const DecodedRows rows = DecodeCsv(schema, {"-999,a", "-9999,NA", "none,none", ",", "NA,a"});
  EXPECT_THAT(rows.features, ElementsAre(0, 1, 0, -9999, 0, 1, 0, 1, 0, 0, 1, 0));
  ASSERT_EQ(rows.dead.size(), 1u);
  EXPECT_EQ(rows.dead[0].reason, "x: 'NA' is not a number; `missing` of the schema does not list it");
  EXPECT_EQ(DecodeCsv(CsvSchema("missing: NA\n", "x: {type: number}"), {"NA"}).dead.at(0).reason,
            "x: is missing");
  EXPECT_THAT(DecodeCsv(CsvSchema("", "c: {type: category, values: [NA, b]}"), {"NA"}).features,
              ElementsAre(1, 0))
      << "a category like any other";
}

TEST(CsvDecoder, AMissingNumberIsOneHoweverItIsSpelled) {
  const std::string fields =
      "x: {type: number, default: 7}, c: {type: category, values: [\"1.0\"], default: \"\"}";
  EXPECT_THAT(DecodeCsv(CsvSchema("missing: [\"-999\", \"1\"]\n", fields),
                        {"-999.0,1.0", "-9.99e2,1", "1.00,x", "-998,1.0"})
                  .features,
              ElementsAre(7, 1, 7, 0, 7, 0, -998, 1))
      << "a category is a text";
  EXPECT_THAT(
      DecodeCsv(CsvSchema("decimal: \",\"\ndelimiter: \";\"\nmissing: [\"-9,5\"]\n", fields), {"-9,50;x"})
          .features,
      ElementsAre(7, 0));
  EXPECT_EQ(DecodeCsv(CsvSchema("missing: \"0\"\n", "x: {type: number}"), {"0.0"}).dead.at(0).reason,
            "x: is missing");
}

TEST(CsvDecoder, NumbersInQuotesMayHaveBlanksAroundThem) {
  const std::string fields = "x: {type: number, default: 7}, c: {type: category, values: [\" a\"]}";
  EXPECT_THAT(DecodeCsv(CsvSchema("", fields),
                        {"\"  12.5\",\" a\"", "\"-3 \",a", "\"\t4\t\",a", "\"   \",a", "\" NA\",a"})
                  .features,
              ElementsAre(12.5, 1, -3, 0, 4, 0, 7, 0, 7, 0))
      << "a category is a text";
  EXPECT_THAT(DecodeCsv(CsvSchema("missing: [\"-999\"]\ndecimal: \",\"\ndelimiter: \";\"\n", fields),
                        {"\" -999,0\";a", "\" 1,5\";a", "\" \";a"})
                  .features,
              ElementsAre(7, 0, 1.5, 0, 7, 0));
  const DecodedRows bad =
      DecodeCsv(CsvSchema("", "x: {type: number, log: true}"), {"\" -3\"", "\" 1 2\"", "\"  \"", "\" NA\""});
  ASSERT_EQ(bad.dead.size(), 4u);
  EXPECT_EQ(bad.dead[0].reason, "x: -3 is below 0, which log does not take");
  EXPECT_EQ(bad.dead[1].reason, "x: '1 2' is not a number");
  EXPECT_EQ(bad.dead[2].reason, "x: is missing");
  EXPECT_EQ(bad.dead[3].reason, "x: 'NA' is not a number; a `default` of the field would take its place");
}

TEST(CsvDecoder, ANumberIsTooLargeForAFloatOrADouble) {
  const std::string label = "x: {type: number}, y: {type: number, role: label, classes: 3}";
  const DecodedRows rows = DecodeCsv(CsvSchema("", label), {"1e39,0", "1e400,0", "\" -1e400\",0", "1,1e39",
                                                            "1,1e400", "1e-400,1", "1e400x,0"});
  EXPECT_THAT(rows.features, ElementsAre(0));
  ASSERT_EQ(rows.dead.size(), 6u);
  EXPECT_EQ(rows.dead[0].reason, "x: 1e+39 is too large");
  EXPECT_EQ(rows.dead[1].reason, "x: '1e400' is too large");
  EXPECT_EQ(rows.dead[2].reason, "x: '-1e400' is too large");
  EXPECT_EQ(rows.dead[3].reason, "y: 1e+39 is not a whole number from 0 to 2");
  EXPECT_EQ(rows.dead[4].reason, "y: '1e400' is not a whole number from 0 to 2");
  EXPECT_EQ(rows.dead[5].reason, "x: '1e400x' is not a number");
  const std::string commas = "delimiter: \";\"\ndecimal: \",\"\n";
  const DecodedRows comma =
      DecodeCsv(CsvSchema(commas, "x: {type: number, log: true}"), {"1,5e400", "-1,5e400"});
  ASSERT_EQ(comma.dead.size(), 2u);
  EXPECT_EQ(comma.dead[0].reason, "x: '1,5e400' is too large");
  EXPECT_EQ(comma.dead[1].reason, "x: '-1,5e400' is below 0, which log does not take");
}

TEST(CsvDecoder, AMissingLabelIsMissing) {
  const Schema schema = CsvSchema("", "y: {type: category, values: [a, b], role: label}, x: {type: number}");
  const DecodedRows rows = DecodeCsv(schema, {",1", "c,1"});
  ASSERT_EQ(rows.dead.size(), 2u);
  EXPECT_EQ(rows.dead[0].reason, "y: is missing");
  EXPECT_EQ(rows.dead[1].reason, "y: 'c' is not among the label's values");
}

TEST(CsvDecoder, NullOfDatabasesIsMissingWhereTheyEscape) {
  const std::string escape = "escape: \"\\\\\"\n", field = "x: {type: number, default: 7}";
  EXPECT_THAT(DecodeCsv(CsvSchema(escape, field), {"\\N", "1"}).features, ElementsAre(7, 1));
  EXPECT_THAT(DecodeCsv(CsvSchema(escape + "missing: [\"\\\\N\"]\n", field), {"\\N", "1"}).features,
              ElementsAre(7, 1));
}

TEST(CsvDecoder, DecimalCommasQuotesAndEscapes) {
  const Schema schema =
      CsvSchema("delimiter: \";\"\nquote: \"'\"\nescape: \"\\\\\"\ndecimal: \",\"\n",
                "x: {type: number, default: 9}, c: {type: category, values: [\"a;b\", \"it's\"]}");
  const DecodedRows rows =
      DecodeCsv(schema, {"1,5;'a;b'", "'-2,25';it\\'s", "3;'it\\'s'", "NA;x", "1.5;x", "1.234,5;x"});
  EXPECT_THAT(rows.features, ElementsAre(1.5, 1, 0, -2.25, 0, 1, 3, 0, 1, 9, 0, 0));
  ASSERT_EQ(rows.dead.size(), 2u);
  EXPECT_EQ(rows.dead[0].reason, "x: '1.5' is not a number");
  const DecodedRows plain =
      DecodeCsv(CsvSchema("quote: none\n", "c: {type: category, values: [\"\\\"a\\\"\"]}"), {"\"a\""});
  EXPECT_THAT(plain.features, ElementsAre(1));
}

TEST(CsvDecoder, TextThatIsNotUtf8IsADeadLetter) {
  const Schema schema =
      CsvSchema("", "c: {type: category, values: [\"Málaga\", y]}, y: {type: number, role: label}");
  // The second is two halves of a character, which are one in the batch.
  const DecodedRows rows = DecodeCsv(schema, {"M\xe1laga,1", "y,1\xc3", "\xa1,1", "Málaga,2", "y,3"});
  EXPECT_THAT(rows.features, ElementsAre(1, 0, 0, 1));
  ASSERT_EQ(rows.dead.size(), 3u);
  EXPECT_THAT(rows.dead[0].reason, StartsWith("is not UTF-8 (byte 0xe1 at 1)"));
  EXPECT_THAT(rows.dead[0].reason, HasSubstr("encoding: latin-1"));
  EXPECT_THAT(rows.dead[1].reason, StartsWith("is not UTF-8 (byte 0xc3 at 3)"));
  EXPECT_THAT(rows.dead[2].reason, StartsWith("is not UTF-8 (byte 0xa1 at 0)"));
  // Hashed texts and words, too, and whatever the column.
  for (const char* field :
       {"c: {type: category, buckets: 4}", "c: {type: text, buckets: 4}", "c: {role: ignore}"})
    EXPECT_EQ(
        DecodeCsv(CsvSchema("", std::string(field) + ", y: {type: number}"), {"\xff,1", "a,1"}).dead.size(),
        1u)
        << field;
}

TEST(CsvDecoder, SettingsThatCannotBeAreSaid) {
  EXPECT_EQ(CsvMistakeIn("quote: ab\n"),
            "job.yaml:2: quote is 'ab'; it must be one character that is no letter and no digit, or none");
  EXPECT_THAT(CsvMistakeIn("escape: a\n"), HasSubstr("escape is 'a'"));
  EXPECT_EQ(CsvMistakeIn("delimiter: \";\"\nquote: \";\"\n"), "job.yaml:3: quote is ';', as delimiter is");
  EXPECT_EQ(CsvMistakeIn("escape: '\"'\n"), "job.yaml:2: escape is '\"', as quote is");
  EXPECT_THAT(CsvMistakeIn("decimal: \";\"\n"), HasSubstr("decimal"));
  EXPECT_THAT(CsvMistakeIn("missing: [NA, null]\n"),
              HasSubstr("job.yaml:2: a missing value that is spelled null needs quotes"));
  EXPECT_EQ(CsvMistakeIn("missing: NA\n", "c: {type: category, values: [a, NA]}"),
            "job.yaml:2: 'NA' is missing, and a value of 'c'; it can be one of them");
  for (const char* key : {"quote", "escape", "decimal", "missing"}) {
    std::string what;
    try {
      (void)Schema::FromConfig(Config::Parse(
          std::string("format: json\n") + key + ": \",\"\nfields: {x: {type: number}}\n", "job.yaml"));
    } catch (const std::invalid_argument& e) {
      what = e.what();
    }
    EXPECT_EQ(what, "job.yaml:2: " + std::string(key) + " is for the format csv");
  }
}

TEST(CsvDecoder, TheHashSeesTheSettings) {
  const std::string field = "x: {type: number}";
  std::set<uint64_t> seen;
  for (const char* settings :
       {"", "quote: none\n", "escape: \"\\\\\"\n", "decimal: \",\"\n", "missing: []\n", "missing: [NA]\n"})
    EXPECT_TRUE(seen.insert(CsvSchema(settings, field).hash()).second) << settings;
  EXPECT_TRUE(seen.contains(CsvSchema("quote: '\"'\ndecimal: .\nescape: none\n", field).hash()))
      << "the defaults";
}

}  // namespace
}  // namespace leat::stream
