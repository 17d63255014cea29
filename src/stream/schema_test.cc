#include "stream/schema.h"
#include "stream/decode/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numbers>
#include <optional>
#include <set>

#include "base/rng.h"
#include "stream/testing.h"

namespace leat::stream {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::FloatNear;
using ::testing::HasSubstr;

Schema Make(const std::string& yaml) {
  return Schema::FromConfig(Config::Parse(yaml, "job.yaml"));
}

std::string ErrorOf(const std::string& yaml) {
  try {
    Make(yaml);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

DecodedRows Decode(const Schema& schema, const std::vector<std::string>& records) {
  DecodedRows rows;
  MakeDecoder(schema)->Decode(BatchOf(records, 100), &rows);
  return rows;
}

const char* const kPayments = R"(format: json
fields:
  amount:  {type: number, log: true, mean: 3, std: 2}
  hour:    {type: number, period: 24}
  country: {type: category, values: [ES, MX]}
  device:  {type: category, buckets: 4}
  plain:   {type: number}
  fraud:   {type: number, role: label, classes: 2}
  p:       {type: number, role: truth}
  note:    {role: ignore}
)";

TEST(Schema, NamesPlaceAndNearestWord) {
  EXPECT_EQ(ErrorOf("format: jsn\nfields: {a: {type: number}}"),
            "job.yaml:1: unknown format 'jsn'; did you mean 'json'?");
  EXPECT_THAT(ErrorOf("format: json\nfields:\n  a: {type: nubmer}"),
              HasSubstr("job.yaml:3: unknown type 'nubmer'; did you mean 'number'?"));
  EXPECT_THAT(ErrorOf("format: json\nfields:\n  a: {type: number, men: 3}"),
              HasSubstr("did you mean 'mean'?"));
  EXPECT_THAT(ErrorOf("format: json\nfeilds:\n  a: {type: number}"), HasSubstr("did you mean 'fields'?"));
  EXPECT_THAT(ErrorOf("format: json\nfields:\n  a: {type: number, role: lable}"),
              HasSubstr("did you mean 'label'?"));
  EXPECT_THAT(ErrorOf("format: json\nfields:\n  a: {type: number, std: 0}"),
              HasSubstr("std is 0; must be above 0"));
  EXPECT_THAT(ErrorOf("format: json\nfields:\n  a: {type: category}"),
              HasSubstr("needs either values or buckets"));
  EXPECT_THAT(ErrorOf("format: json\nfields:\n  a: {type: category, values: [x], buckets: 3}"),
              HasSubstr("either"));
  EXPECT_THAT(ErrorOf("format: json\nfields:\n  a: {type: category, values: [x, x]}"),
              HasSubstr("'x' is in values twice"));
  EXPECT_THAT(ErrorOf("format: json\nfields:\n  a: {type: category, log: true, values: [x]}"),
              HasSubstr("log is for features that are numbers"));
  EXPECT_THAT(ErrorOf("format: json\nfields:\n  a: {type: number, period: 24, mean: 3}"),
              HasSubstr("period"));
  EXPECT_THAT(ErrorOf("format: json\nfields:\n  a: {type: bytes, width: 3}"), HasSubstr("idx"));
  EXPECT_THAT(ErrorOf("format: json\nfields:\n  a: {type: string}"), HasSubstr("only be ignored"));
  EXPECT_THAT(ErrorOf("format: json\nfields:\n  a: {type: number, role: label}"), HasSubstr("no features"));
  EXPECT_THAT(ErrorOf("format: json\nfields:\n  a: {type: number}\n  b: {type: number, role: truth}\n  c: "
                      "{type: number, role: truth}"),
              HasSubstr("job.yaml:5: 'c' is a second truth after 'b'"));
  EXPECT_THAT(ErrorOf("format: json\nfields:\n  a: {type: category, role: label, buckets: 3}"),
              ::testing::Ne(""));
  EXPECT_THAT(ErrorOf("format: csv\ncolumns: [aa, b]\nfields:\n  ab: {type: number}"),
              HasSubstr("job.yaml:4: field 'ab' is not among the columns; did you mean 'aa'?"));
  EXPECT_THAT(ErrorOf("format: json\nfields: []"), ::testing::Ne(""));
  EXPECT_THAT(ErrorOf("format: json\nfields: {a: 3}"), HasSubstr("must be a map"));
  EXPECT_THAT(ErrorOf("[]"), ::testing::Ne(""));
}

TEST(Schema, SaysWhatIsWrongWithLabelsIdsAndCharacters) {
  const auto json = [](const std::string& field) { return ErrorOf("format: json\nfields:\n  x: " + field); };
  const auto text = [](const std::string& field) { return ErrorOf("format: text\nfields:\n  x: " + field); };
  const std::string two =
      "format: json\nfields:\n  a: {type: number}\n  b: {type: number, role: label, classes: 3}\n  c: ";
  EXPECT_EQ(ErrorOf(two + "{type: number, role: label, classes: 3}"), "");
  EXPECT_EQ(ErrorOf(two + "{type: category, values: [u, v, w], role: label}"), "");
  EXPECT_EQ(ErrorOf(two + "{type: number, role: label}"),
            "job.yaml:5: 'c' is a label of any number, 'b' one of 3 classes");
  EXPECT_THAT(ErrorOf(two + "{type: category, values: [u, v], role: label}"), HasSubstr("2 classes"));
  EXPECT_THAT(ErrorOf(two + "{type: number, role: label, classes: 3}\n  d: {type: number, role: truth}"),
              HasSubstr("job.yaml:6: a truth goes with one label; there are 2"));

  EXPECT_EQ(json("{type: id, below: 5}"), "");
  EXPECT_EQ(json("{type: id, below: 5, length: 3, pad: 4}"), "");
  EXPECT_THAT(json("{type: id}"), HasSubstr("below"));
  EXPECT_THAT(json("{type: id, below: 0}"), HasSubstr("job.yaml:3: below is 0"));
  EXPECT_THAT(json("{type: id, below: 16777217}"), HasSubstr("16777216"));
  EXPECT_THAT(json("{type: id, below: 5, pad: 1}"), HasSubstr("how long is 'x'"));
  EXPECT_THAT(json("{type: id, below: 5, length: 3, pad: 5}"), HasSubstr("pad is 5"));
  EXPECT_THAT(json("{type: id, below: 5, length: 0}"), HasSubstr("length is 0"));
  EXPECT_THAT(json("{type: id, below: 5, role: label}"), HasSubstr("a number with classes"));
  EXPECT_THAT(json("{type: number, below: 5}"), HasSubstr("below is for ids; 'x' is none"));
  EXPECT_THAT(json("{type: number, alphabet: ab}"), HasSubstr("alphabet is for characters"));
  EXPECT_THAT(json("{type: characters, sequence: 5}"), HasSubstr("for the format text"));
  EXPECT_THAT(ErrorOf("format: csv\nfields:\n  x: {type: id, below: 5, length: 3}"),
              HasSubstr("lists are for the formats json, avro and protobuf"));

  EXPECT_EQ(text("{type: characters, sequence: 5}"), "");
  EXPECT_THAT(text("{type: characters}"), HasSubstr("job.yaml:3: field 'x' needs a sequence"));
  EXPECT_THAT(text("{type: characters, sequence: 65537}"), HasSubstr("65536"));
  EXPECT_THAT(text("{type: characters, sequence: 5, role: label}"), HasSubstr("goes without role"));
  EXPECT_THAT(text("{type: characters, sequence: 5, alphabet: abca}"),
              HasSubstr("'a' is in the alphabet twice"));
  EXPECT_THAT(text("{type: characters, sequence: 5, alphabet: a}"), HasSubstr("at least 2"));
  EXPECT_THAT(text("{type: number}"), HasSubstr("one field, of type characters"));
  EXPECT_THAT(text("{type: characters, sequence: 5}\n  y: {type: characters, sequence: 5}"),
              HasSubstr("one field"));
  // The stream defines the sequence, unless the field has the same.
  const auto of_files = [](const std::string& field) {
    return Schema::FromConfig(Config::Parse("format: text\nfields:\n  x: " + field, "job.yaml"), 7);
  };
  EXPECT_EQ(of_files("{type: characters}").features(), 7u);
  EXPECT_EQ(of_files("{type: characters, sequence: 7}").features(), 7u);
  EXPECT_THROW(of_files("{type: characters, sequence: 6}"), std::invalid_argument);
}

TEST(Schema, ARunningScaleIsTheModelsAndChangesNoRow) {
  const Schema schema = Make(
      "format: json\nfields:\n  hour: {type: number, period: 24}\n  a: {type: number, scale: running}\n"
      "  c: {type: category, values: [u, v]}\n  b: {type: number, log: true, mean: 1, std: 2, scale: "
      "running, "
      "default: 0}\n  y: {type: number, role: label}\n");
  EXPECT_THAT(schema.running_features(), ElementsAre(2, 5));
  EXPECT_THAT(Make(kPayments).running_features(), ::testing::IsEmpty());
  const DecodedRows rows = Decode(schema, {R"({"hour": 6, "a": 3e8, "c": "v", "y": 1})"});
  ASSERT_EQ(rows.rows, 1u);
  EXPECT_EQ(rows.features[2], 3e8f);
  EXPECT_EQ(rows.features[5], -0.5f) << "of the default, by log, mean and std";
  const Schema image = Make("format: idx\nfields: {x: {type: bytes, width: 3, scale: running}}");
  EXPECT_THAT(image.running_features(), ElementsAre(0, 1, 2));
  EXPECT_EQ(image.fields[0].ids(), 0u) << "the first layer gets no whole numbers";
}

TEST(Schema, SaysWhatHasNoRunningScale) {
  const auto json = [](const std::string& field) { return ErrorOf("format: json\nfields:\n  x: " + field); };
  EXPECT_EQ(json("{type: number, scale: runing}"),
            "job.yaml:3: unknown scale 'runing'; did you mean 'running'?");
  for (const char* field :
       {"{type: category, values: [u], scale: running}", "{type: id, below: 5, scale: running}",
        "{type: text, buckets: 9, scale: running}", "{type: number, role: label, scale: running}",
        "{type: number, role: truth, scale: running}"}) {
    EXPECT_EQ(json(field), "job.yaml:3: scale is for features that are numbers or bytes; 'x' is none")
        << field;
  }
  EXPECT_EQ(json("{type: number, period: 24, scale: running}"),
            "job.yaml:3: field 'x' has a period, which goes without log, mean, std and scale");
  EXPECT_EQ(json("{type: number, length: 3, scale: running}"),
            "job.yaml:3: 'x' is a list, whose padding would count as values; scale: running takes no list");
}

// The hashes of jobs from before ids and numeric labels, which must be able to resume from their checkpoints.
TEST(Schema, HashOfOlderSchemasStays) {
  EXPECT_EQ(Make(Replaced(kPayments, "buckets: 4", "values: [a]")).hash(), 1917638468515215397u);
}

// Records decode otherwise than with the version that made this hash.
TEST(Schema, HashOfCategoriesComparedByValueIsAnother) {
  EXPECT_NE(Make(kPayments).hash(), 11287943297506631648u);
  EXPECT_NE(Make(Replaced(kPayments, "buckets: 4", "values: [1]")).hash(), 10735175594805199762u);
}

TEST(Schema, NoTwoValuesOfACategoryAreTheSame) {
  const auto error = [](const std::string& values) {
    return ErrorOf("format: json\nfields:\n  a: {type: category, values: " + values + "}");
  };
  EXPECT_EQ(error("[1, x, 1.0]"), "job.yaml:3: '1' and '1.0' in values are the same; leave one out");
  EXPECT_EQ(error("[\"1\", 1e0]"), "job.yaml:3: '1' and '1e0' in values are the same; leave one out");
  EXPECT_EQ(error("[true, True]"), "job.yaml:3: 'true' and 'True' in values are the same; leave one out");
  EXPECT_EQ(error("[1, 01, 001, true, yes, 1.5, 15]"), "");
}

// The meaning of a value does not depend on the format.
TEST(Decoders, ACategoryComparesNumbersAndBooleansByValue) {
  const std::string fields =
      "fields:\n  k: {type: category, values: [1, 2.0, 007]}\n  b: {type: category, values: [True, False]}\n"
      "  h: {type: category, buckets: 1000}\n  y: {type: category, values: [0, 1], role: label}\n";
  const DecodedRows csv = Decode(Make("format: csv\n" + fields),
                                 {"1,True,3,1", "1.0,true,3.0,1.0", "1e0,TRUE,+3,+1", "2,False,true,0",
                                  "2.00,FALSE,True,0.0", "007,x,007,1", "7,1,7,1"});
  const DecodedRows json =
      Decode(Make("format: json\n" + fields),
             {R"({"k":1,"b":true,"h":3,"y":1})", R"({"k":1.0,"b":"true","h":3.0,"y":1.0})",
              R"({"k":10e-1,"b":true,"h":30e-1,"y":"1"})", R"({"k":2,"b":false,"h":true,"y":0})",
              R"({"k":2.0,"b":"False","h":"True","y":-0})", R"({"k":"007","b":null,"h":"007","y":1})",
              R"({"k":7,"b":1,"h":7,"y":1})"});
  ASSERT_EQ(csv.rows, 7u) << csv.dead[0].reason;
  ASSERT_EQ(json.dead.size(), 1u);
  EXPECT_EQ(json.dead[0].reason, "b: is null");
  const size_t width = csv.features.size() / 7;
  for (const size_t row : {0, 1, 2, 3, 4, 6}) {
    const auto of = [&](const DecodedRows& rows, size_t at) {
      const auto begin = rows.features.begin() + static_cast<std::ptrdiff_t>(at * width);
      return std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(width));
    };
    EXPECT_EQ(of(csv, row), of(json, row < 6 ? row : 5)) << row;
  }
  EXPECT_THAT(csv.labels, ElementsAre(1, 1, 1, 0, 0, 1, 1));
  EXPECT_THAT(json.labels, ElementsAre(1, 1, 1, 0, 0, 1));
  for (const auto& [row, expected] : {std::pair<size_t, std::vector<float>>{0, {1, 0, 0, 1, 0}},
                                      {2, {1, 0, 0, 1, 0}},
                                      {4, {0, 1, 0, 0, 1}},
                                      {5, {0, 0, 1, 0, 0}},
                                      {6, {0, 0, 0, 0, 0}}}) {
    const auto begin = csv.features.begin() + static_cast<std::ptrdiff_t>(row * width);
    EXPECT_EQ(std::vector<float>(begin, begin + 5), expected) << row;
  }
}

TEST(Schema, HashSeesAllThatChangesNumbersAndNothingElse) {
  const std::string yaml = kPayments;
  const uint64_t hash = Make(yaml).hash();
  EXPECT_EQ(Make("# a comment moves every line\n" + yaml).hash(), hash);
  for (auto [from, to] : {std::pair{"mean: 3", "mean: 3.5"},
                          {"std: 2", "std: 2.5"},
                          {"log: true", "log: false"},
                          {"period: 24", "period: 12"},
                          {"[ES, MX]", "[MX, ES]"},
                          {"buckets: 4", "buckets: 5"},
                          {"classes: 2", "classes: 3"},
                          {"plain:", "plane:"},
                          {"role: truth", "role: ignore"}}) {
    std::string other = yaml;
    other.replace(other.find(from), std::string(from).size(), to);
    EXPECT_NE(Make(other).hash(), hash) << to;
  }
}

TEST(Schema, HashSeesIdsAndCharacters) {
  std::set<uint64_t> seen;
  for (const char* yaml :
       {"format: json\nfields: {a: {type: number}, y: {type: number, role: label}}",
        "format: json\nfields: {a: {type: number}, y: {type: number, role: label}, z: {type: number, role: "
        "label}}",
        "format: json\nfields: {a: {type: id, below: 5}}", "format: json\nfields: {a: {type: id, below: 6}}",
        "format: json\nfields: {a: {type: id, below: 6, length: 1}}",
        "format: json\nfields: {a: {type: id, below: 6, length: 2}}",
        "format: json\nfields: {a: {type: id, below: 6, length: 2, pad: 1}}",
        "format: text\nfields: {a: {type: characters, sequence: 5}}",
        "format: text\nfields: {a: {type: characters, sequence: 6}}",
        "format: text\nfields: {a: {type: characters, sequence: 6, alphabet: abc}}",
        "format: text\nfields: {a: {type: characters, sequence: 6, alphabet: acb}}"}) {
    EXPECT_TRUE(seen.insert(Make(yaml).hash()).second) << yaml;
  }
}

TEST(Schema, PathsAreKeysFromTheRoot) {
  const Schema schema = Make(
      "format: json\nfields:\n  country: {type: number, path: customer.address.country}\n"
      "  age: {type: number, path: [customer.v2, \"\", age]}\n  a.b: {type: number}\n"
      "  c: {type: number, path: d}\n");
  EXPECT_THAT(schema.fields[0].path, ElementsAre("customer", "address", "country"));
  EXPECT_EQ(schema.fields[0].path_text(), "customer.address.country");
  EXPECT_THAT(schema.fields[1].path, ElementsAre("customer.v2", "", "age"));
  EXPECT_EQ(schema.fields[1].path_text(), "\"customer.v2\".\"\".age");
  EXPECT_THAT(schema.fields[2].path, ElementsAre("a.b")) << "a name is one key";
  EXPECT_EQ(schema.fields[2].path_text(), "a.b");
  EXPECT_FALSE(schema.fields[2].has_own_path());
  EXPECT_EQ(schema.fields[3].path_text(), "d");
}

TEST(Schema, SaysWhatIsWrongWithPaths) {
  const auto error = [](const std::string& fields) { return ErrorOf("format: json\nfields:\n" + fields); };
  EXPECT_THAT(error("  a: {type: number, path: b..c}"),
              HasSubstr("job.yaml:3: the path 'b..c' has an empty key"));
  EXPECT_THAT(error("  a: {type: number, path: b.}"), HasSubstr("has an empty key"));
  EXPECT_THAT(error("  a: {type: number, path: \"\"}"), HasSubstr("has an empty key"));
  EXPECT_THAT(error("  a: {type: number, path: []}"), HasSubstr("a path is one key or more"));
  EXPECT_THAT(error("  a: {type: number, path: {b: c}}"), ::testing::Ne(""));
  EXPECT_THAT(error("  a: {type: number, path: [b, [c]]}"), ::testing::Ne(""));
  std::string deep = "k";
  for (int i = 0; i < 32; ++i) deep += ".k";
  EXPECT_THAT(error("  a: {type: number, path: " + deep + "}"), HasSubstr("a path of 33 keys; at most 32"));
  EXPECT_EQ(error("  a: {type: number, path: b.c}\n  b: {type: number, path: b.d}"), "");
  EXPECT_EQ(error("  a: {type: number, path: b.c}\n  c: {type: number, path: [b.c]}"), "");
  EXPECT_EQ(error("  a: {type: number, path: b.c}\n  b: {role: ignore}"), "");
  EXPECT_EQ(error("  a: {type: number, path: c.d}\n  b: {type: number, path: [c, d]}"),
            "job.yaml:4: 'b' has the path c.d, as 'a' has");
  EXPECT_EQ(error("  a: {type: number, path: b.c}\n  z: {type: number}\n  b: {type: number}"),
            "job.yaml:3: the path b.c of 'a' leads through the value of 'b'");
  EXPECT_EQ(ErrorOf("format: csv\nfields:\n  a: {type: number, path: b}"),
            "job.yaml:3: path is for nested records; a field of csv is the column with its name");
  EXPECT_EQ(ErrorOf("format: idx\nfields:\n  a: {type: number, path: b}"),
            "job.yaml:3: path is for nested records; those of idx, text and tensor are bytes");
}

TEST(Schema, SaysWhatIsWrongWithDefaults) {
  const auto error = [](const std::string& field) { return ErrorOf("format: json\nfields:\n  a: " + field); };
  EXPECT_EQ(error("{type: number, default: -1.5}"), "");
  EXPECT_EQ(error("{type: category, values: [u, v], default: 3}"), "");
  EXPECT_EQ(error("{type: id, below: 5, default: 4}"), "");
  EXPECT_EQ(error("{type: id, below: 5, length: 2, default: []}"), "");
  EXPECT_THAT(error("{type: number, default: none}"), HasSubstr("job.yaml:3:"));
  EXPECT_THAT(error("{type: number, default: }"), HasSubstr("default must be a value"));
  EXPECT_THAT(error("{type: number, default: [1]}"), HasSubstr("job.yaml:3:"));
  EXPECT_EQ(error("{type: number, log: true, default: -1}"),
            "job.yaml:3: default of a: -1 is below 0, which log does not take");
  EXPECT_EQ(error("{type: number, default: 1e300, path: b.c}"),
            "job.yaml:3: default of b.c: 1e+300 is too large");
  EXPECT_EQ(error("{type: id, below: 5, default: 5}"),
            "job.yaml:3: default of a: 5 is not a whole number from 0 to 4");
  EXPECT_EQ(error("{type: id, below: 5, length: 2, default: [1, 5]}"),
            "job.yaml:3: default of a: 5 is not a whole number from 0 to 4");
  EXPECT_EQ(error("{type: id, below: 5, length: 2, default: [1, 2, 3]}"),
            "job.yaml:3: default of a: has 3 items, more than 2");
  EXPECT_EQ(error("{type: text, buckets: 5, length: 1, truncate: false, default: a b}"),
            "job.yaml:3: default of a: has 2 words, more than 1");
  EXPECT_EQ(error("{type: id, below: 5, length: 2, default: 1}"),
            "job.yaml:3: the default of a list is a list, such as []");
  EXPECT_EQ(error("{type: category, values: [u, v], role: label, default: w}"),
            "job.yaml:3: default of a: 'w' is not among the label's values");
  EXPECT_EQ(error("{role: ignore, default: 1}"), "job.yaml:3: 'a' is ignored and needs no default");
  EXPECT_THAT(ErrorOf("format: idx\nfields:\n  a: {type: number, default: 1}"),
              HasSubstr("those of idx, text and tensor cannot"));
}

TEST(Schema, HashSeesPathsAndDefaults) {
  std::set<uint64_t> seen;
  for (const char* field : {"{type: number}",
                            "{type: number, path: b}",
                            "{type: number, path: b.c}",
                            "{type: number, path: [b.c]}",
                            "{type: number, default: 0}",
                            "{type: number, default: 1}",
                            "{type: category, buckets: 5}",
                            "{type: category, buckets: 5, default: \"\"}",
                            "{type: category, buckets: 5, default: x}",
                            "{type: id, below: 6, length: 2}",
                            "{type: id, below: 6, length: 2, truncate: true}",
                            "{type: number, length: 1}",
                            "{type: number, length: 2}",
                            "{type: text, buckets: 5}",
                            "{type: text, buckets: 6}",
                            "{type: text, buckets: 5, length: 1}",
                            "{type: text, buckets: 5, length: 2}",
                            "{type: text, buckets: 5, length: 2, truncate: false}",
                            "{type: text, values: [a]}",
                            "{type: text, tokens: bytes}",
                            "{type: text, tokens: characters, alphabet: a}",
                            "{type: id, below: 6, length: 2, default: []}",
                            "{type: id, below: 6, length: 2, default: [0]}"}) {
    EXPECT_TRUE(seen.insert(Make(std::string("format: json\nfields: {a: ") + field + "}").hash()).second)
        << field;
  }
  EXPECT_EQ(Make("format: json\nfields: {a: {type: number, path: a}}").hash(),
            Make("format: json\nfields: {a: {type: number}}").hash());
}

TEST(CsvDecoder, AnEmptyFieldTakesTheDefault) {
  const Schema schema = Make(
      "format: csv\nfields:\n  a: {type: number, log: true, mean: 1, std: 2, default: 3}\n"
      "  h: {type: number, period: 24, default: 6}\n  c: {type: category, values: [u, v], default: v}\n"
      "  i: {type: id, below: 9, default: 8}\n  y: {type: number, role: label, default: 5}\n"
      "  p: {type: number, role: truth, default: 0.25}\n  m: {type: number}\n");
  const DecodedRows rows =
      Decode(schema, {",,,,,,1", "3,6,v,8,5,0.25,1", " , \"\" ,u,0,0,0,2", ",,,,,,", "x,,,,,,1"});
  ASSERT_EQ(rows.rows, 3u);
  ASSERT_EQ(schema.features(), 7u);
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(rows.features[i], rows.features[7 + i]) << i;
  EXPECT_THAT(std::vector(rows.features.begin() + 14, rows.features.end()),
              ElementsAre(rows.features[0], rows.features[1], rows.features[2], 1, 0, 0, 2));
  EXPECT_THAT(rows.labels, ElementsAre(5, 5, 0));
  EXPECT_THAT(rows.truth, ElementsAre(0.25f, 0.25f, 0));
  ASSERT_EQ(rows.dead.size(), 2u);
  EXPECT_EQ(rows.dead[0].reason, "m: is missing");
  EXPECT_EQ(rows.dead[1].reason, "a: 'x' is not a number");
}

TEST(JsonDecoder, TurnsFieldsIntoFeatures) {
  const Schema schema = Make(kPayments);
  ASSERT_EQ(schema.features(), 1u + 2 + 2 + 4 + 1);
  EXPECT_EQ(schema.classes(), 2u);
  const DecodedRows rows = Decode(
      schema,
      {R"({"amount": 19.5, "hour": 6, "country": "MX", "device": "phone", "plain": -1.25e1, "fraud": 1, "p": 0.25})",
       R"( {"note":"a\nb","p":0.5,"other":{"x":[1,2]},"fraud":false,"plain":true,"device":17,"country":"FR","hour":30,"amount":0} )"});
  ASSERT_EQ(rows.rows, 2u);
  EXPECT_TRUE(rows.dead.empty());
  EXPECT_THAT(rows.index, ElementsAre(0, 1));
  EXPECT_THAT(rows.labels, ElementsAre(1, 0));
  EXPECT_THAT(rows.truth, ElementsAre(0.25f, 0.5f));
  const auto row = [&](size_t i) {
    return std::vector<float>(rows.features.begin() + i * 10, rows.features.begin() + (i + 1) * 10);
  };
  const auto hashed = [](std::string_view text, size_t bucket) {
    return Mix(HashName(text)) % 4 == bucket ? 1.0f : 0.0f;
  };
  EXPECT_THAT(row(0), ElementsAre(FloatEq(static_cast<float>((std::log(20.5) - 3) / 2)), FloatNear(1, 1e-6f),
                                  FloatNear(0, 1e-6f), 0, 1, hashed("phone", 0), hashed("phone", 1),
                                  hashed("phone", 2), hashed("phone", 3), -12.5f));
  EXPECT_THAT(row(1), ElementsAre(-1.5f, FloatNear(1, 1e-6f), FloatNear(0, 1e-6f), 0, 0, hashed("17", 0),
                                  hashed("17", 1), hashed("17", 2), hashed("17", 3), 1));
}

TEST(JsonDecoder, KeepsWhatDoesNotFitAsideWithOffsetAndReason) {
  const Schema schema = Make(
      "format: json\nfields:\n  a: {type: number, log: true}\n  c: {type: category, values: [u, v], role: "
      "label}\n");
  const std::vector<std::pair<std::string, std::string>> bad = {
      {R"({"a":"x","c":"u"})", "a: 'x' is not a number"},
      {R"({"a":"12","c":"u"})", "a: '12' is a text that holds a number; write it without quotes"},
      {R"({"c":"u"})", "a: is missing"},
      {R"({"a":1})", "c: is missing"},
      {R"({"a":null,"c":"u"})", "a: is null"},
      {R"({"a":[1],"c":"u"})", "a: is an array"},
      {R"({"a":{},"c":"u"})", "a: is an object"},
      {R"({"a":-1,"c":"u"})", "a: -1 is below 0, which log does not take"},
      {R"({"a":1,"c":"w"})", "c: 'w' is not among the label's values"},
      {R"({"a":1,"c":3})", "c: '3' is not among the label's values"},
      {R"({"a":1,"a":2,"c":"u"})", "a: appears twice"},
      {R"({"a":1e999,"c":"u"})", "a: '1e999' is too large"},
      {R"({"a":-1e999,"c":"u"})", "a: '-1e999' is below 0, which log does not take"},
      {R"({"a":-01,"c":"u"})", "a: '-01' is no JSON: a number has no zeros before it"},
      {R"({"a":1,"c":"u"} x)", "not a JSON object: 'x' follows it"},
      {R"({"a":1,"c":"}"}, )", "not a JSON object: ',' follows it"},
      {R"({"a":1,"c":"u"} // one)", "not a JSON object: '// one' follows it"},
      {"\xEF\xBB\xBF{\"a\":1,\"c\":\"u\"}", "not a JSON object: it begins with a byte order mark"},
      {std::string("\0\0\0\1\2{\"a\":1}", 12),
       "not a JSON object: it begins with the 5 bytes of a schema registry, 0 and the id of schema 258; its "
       "producer needs a plain JSON serializer"},
      {std::string("\0\0\0\0\7\2\4", 7), "is it of the format avro or protobuf?"},
      {R"({"a":1,"c":"u")", "not a JSON object: "},
      {R"({"a":1)", "not a JSON object: "},
      {"{\"a\":1,\"c\":\"\xff\"}", "not a JSON object: "},
      {R"([1,2])", "not a JSON object: "},
      {"", "is empty: a tombstone?"},
      {" ", "not a JSON object: "},
      {"{}", "a: is missing"},
  };
  std::vector<std::string> records;
  for (const auto& [record, reason] : bad) {
    records.push_back(record);
    records.push_back(R"({"a":0,"c":"v"})");
  }
  const DecodedRows rows = Decode(schema, records);
  EXPECT_EQ(rows.rows, bad.size());
  ASSERT_EQ(rows.dead.size(), bad.size());
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(rows.dead[i].offset, 100 + 2 * i);
    EXPECT_THAT(rows.dead[i].reason, HasSubstr(bad[i].second)) << bad[i].first;
    EXPECT_EQ(rows.dead[i].record, bad[i].first);
    EXPECT_EQ(rows.index[i], 2 * i + 1);
    EXPECT_EQ(rows.labels[i], 1);
    EXPECT_EQ(rows.features[i], 0);
  }
}

TEST(JsonDecoder, ARefusedRecordLeavesNothingInTheNextRow) {
  const Schema schema =
      Make("format: json\nfields:\n  c: {type: category, values: [u, v]}\n  a: {type: number}\n");
  const DecodedRows rows = Decode(schema, {R"({"c":"u","a":"x"})", R"({"c":"v","a":5})", R"({"c":"u","a":)"});
  EXPECT_THAT(rows.features, ElementsAre(0, 1, 5));
}

TEST(RecordLimits, ALargerRecordIsADeadLetterInEveryFormat) {
  const Schema json = Make("format: json\nmax_record_bytes: 10\nfields:\n  a: {type: number}\n");
  const DecodedRows rows = Decode(json, {R"({"a":1000})", R"({"a":10000})", R"({"a":2})"});
  EXPECT_THAT(rows.features, ElementsAre(1000, 2));
  ASSERT_EQ(rows.dead.size(), 1u);
  EXPECT_EQ(rows.dead[0].reason, "has 11 bytes, more than max_record_bytes 10");
  const Schema csv = Make("format: csv\nmax_record_bytes: 3\nfields:\n  a: {type: number}\n");
  EXPECT_THAT(Decode(csv, {"100", "1000", "2"}).features, ElementsAre(100, 2));
  const Schema usual = Make("format: json\nfields:\n  a: {type: number}\n");
  EXPECT_NE(json.hash(), usual.hash());
  const std::string large = R"({"b":")" + std::string(Schema::kDefaultRecordBytes, 'x') + R"(","a":1})";
  EXPECT_THAT(Decode(usual, {large}).dead[0].reason, HasSubstr("bytes, more than max_record_bytes 4194304"));
  EXPECT_EQ(Make("format: json\nmax_record_bytes: 4194304\nfields:\n  a: {type: number}\n").hash(),
            usual.hash());
  EXPECT_THAT(ErrorOf("format: json\nmax_record_bytes: 0\nfields:\n  a: {type: number}\n"),
              HasSubstr("job.yaml:2: max_record_bytes is 0"));
}

TEST(JsonDecoder, AppendsToRowsThatAreThere) {
  const Schema schema = Make("format: json\nfields:\n  a: {type: number}\n");
  DecodedRows rows;
  const auto decoder = MakeDecoder(schema);
  decoder->Decode(BatchOf({R"({"a":1})", "?"}, 10), &rows);
  decoder->Decode(BatchOf({R"({"a":2})"}, 12), &rows);
  EXPECT_THAT(rows.features, ElementsAre(1, 2));
  EXPECT_THAT(rows.labels, ElementsAre(0, 0));
  EXPECT_TRUE(rows.truth.empty());
  EXPECT_EQ(rows.dead.size(), 1u);
}

TEST(JsonDecoder, ReadsLabelsAndIdsAndListsOfThem) {
  const Schema schema = Make(
      "format: json\nfields:\n  y: {type: number, role: label}\n  item: {type: id, below: 100}\n"
      "  seen: {type: id, below: 10, length: 3, pad: 9}\n  z: {type: number, role: label}\n");
  ASSERT_EQ(schema.features(), 4u);
  ASSERT_EQ(schema.labels(), 2u);
  EXPECT_EQ(schema.classes(), 0u);
  const std::vector<std::pair<std::string, std::string>> bad = {
      {R"({"y":1,"z":1,"item":100,"seen":[]})", "item: 100 is not a whole number from 0 to 99"},
      {R"({"y":1,"z":1,"item":-1,"seen":[]})", "item: -1 is not"},
      {R"({"y":1,"z":1,"item":1.5,"seen":[]})", "item: 1.5 is not"},
      {R"({"y":1,"z":1,"item":"1","seen":[]})", "item: '1' is a text that holds a number"},
      {R"({"y":1,"z":1,"item":[1],"seen":[]})", "item: is an array"},
      {R"({"y":1,"z":1,"item":1,"seen":[1,10]})", "seen: 10 is not a whole number from 0 to 9"},
      {R"({"y":1,"z":1,"item":1,"seen":[1,2,3,4,5]})", "seen: has 5 items, more than 3"},
      {R"({"y":1,"z":1,"item":1,"seen":[1,"2"]})", "seen: holds something that is not a number"},
      {R"({"y":1,"z":1,"item":1,"seen":[[1]]})", "seen: holds something that is not a number"},
      {R"({"y":1,"z":1,"item":1,"seen":[01]})", "seen: '01' is no JSON"},
      {R"({"y":1,"z":1,"item":1,"seen":3})", "seen: '3' is not a list"},
      {R"({"y":1,"z":1,"item":1,"seen":"3"})", "seen: '3' is not a list"},
      {R"({"y":1,"z":1,"item":1,"seen":[1e400]})", "seen: '1e400' is not a whole number from 0 to 9"},
      {R"({"y":1,"z":1,"item":1,"seen":[1,]})", "not a JSON object"},
      {R"({"y":1,"z":1,"item":1,"seen":[1})", "not a JSON object"},
      {R"({"y":1,"item":1,"seen":[]})", "z: is missing"},
  };
  std::vector<std::string> records = {R"({"y":1.5,"item":99,"seen":[ 1 , 2,3],"z":-2})"};
  for (const auto& [record, reason] : bad) records.push_back(record);
  records.push_back(R"({"z":4,"y":3,"other":[1,2],"seen":[],"item":0})");
  records.push_back(R"({"z":6,"y":5,"seen":[7],"item":1})");
  const DecodedRows rows = Decode(schema, records);
  EXPECT_THAT(rows.features, ElementsAre(99, 1, 2, 3, 0, 9, 9, 9, 1, 7, 9, 9));
  EXPECT_THAT(rows.labels, ElementsAre(1.5, -2, 3, 4, 5, 6));
  ASSERT_EQ(rows.dead.size(), bad.size());
  for (size_t i = 0; i < bad.size(); ++i)
    EXPECT_THAT(rows.dead[i].reason, HasSubstr(bad[i].second)) << bad[i].first;
}

TEST(CsvDecoder, ReadsLabelsAndIds) {
  const Schema schema = Make(
      "format: csv\nfields:\n  y: {type: number, role: label}\n  item: {type: id, below: 100}\n"
      "  z: {type: number, role: label}\n");
  const DecodedRows rows = Decode(schema, {"1,5,2", "1,100,2", "3,99,4"});
  EXPECT_THAT(rows.features, ElementsAre(5, 99));
  EXPECT_THAT(rows.labels, ElementsAre(1, 2, 3, 4));
  ASSERT_EQ(rows.dead.size(), 1u);
  EXPECT_EQ(rows.dead[0].reason, "item: 100 is not a whole number from 0 to 99");
}

TEST(TextDecoder, ShiftsCharactersByOne) {
  const Schema schema =
      Make("format: text\nfields:\n  text: {type: characters, sequence: 3, alphabet: \"\\nab\"}\n");
  ASSERT_EQ(schema.features(), 3u);
  ASSERT_EQ(schema.labels(), 3u);
  EXPECT_EQ(schema.classes(), 3u);
  EXPECT_EQ(schema.fields[0].ids(), 3u);
  const DecodedRows rows = Decode(schema, {"ab\na", "abxa", "bbb", "bb\n\x01", "babb"});
  EXPECT_THAT(rows.features, ElementsAre(1, 2, 0, 2, 1, 2));
  EXPECT_THAT(rows.labels, ElementsAre(2, 0, 1, 1, 2, 2));
  EXPECT_THAT(rows.index, ElementsAre(0, 4));
  ASSERT_EQ(rows.dead.size(), 3u);
  EXPECT_EQ(rows.dead[0].offset, 101u);
  EXPECT_EQ(rows.dead[0].reason, "text: 'x' (0x78), character 2 of the record, is not in the alphabet");
  EXPECT_EQ(rows.dead[1].reason, "has 3 characters instead of 4");
  EXPECT_THAT(rows.dead[2].reason, HasSubstr("'?' (0x01), character 3"));
}

TEST(TextDecoder, WithoutAnAlphabetAByteIsItsOwnId) {
  const Schema schema = Make("format: text\nfields: {text: {type: characters, sequence: 2}}\n");
  EXPECT_EQ(schema.classes(), 256u);
  const DecodedRows rows = Decode(schema, {std::string("\0\xff\x80", 3)});
  EXPECT_THAT(rows.features, ElementsAre(0, 255));
  EXPECT_THAT(rows.labels, ElementsAre(255, 128));
}

TEST(TextDecoder, AnAlphabetBeyondAsciiIsTheBytesOfIt) {
  const Schema schema =
      Make("format: text\nfields: {text: {type: characters, sequence: 1, alphabet: \"éèa\"}}\n");
  EXPECT_EQ(schema.classes(), 4u);  // c3, a9, a8, a
  EXPECT_THAT(Decode(schema, {"é", "è"}).labels, ElementsAre(1, 2));
}

TEST(CsvDecoder, ADelimiterIsOneCharacterAndPartOfTheHash) {
  const std::string fields = "fields: {x: {type: number}, y: {type: number, role: label}}\n";
  const auto with = [&](const std::string& more) {
    return Schema::FromConfig(Config::Parse(more + fields, "job.yaml"));
  };
  const Schema comma = with("format: csv\n");
  EXPECT_EQ(comma.delimiter, ',');
  EXPECT_FALSE(comma.delimiter_set);
  EXPECT_EQ(with("format: csv\ndelimiter: \",\"\n").hash(), comma.hash());
  const Schema semicolon = with("format: csv\ndelimiter: \";\"\n");
  EXPECT_TRUE(semicolon.delimiter_set);
  EXPECT_NE(semicolon.hash(), comma.hash());
  EXPECT_EQ(with("format: csv\ndelimiter: tab\n").delimiter, '\t');
  EXPECT_EQ(with("format: csv\ndelimiter: \"\\t\"\n").delimiter, '\t');
  for (const char* wrong : {"a", "1", "\".\"", "\"-\"", "\" \"", "\"''\"", "\";;\"", "\"\"", "'\"'"}) {
    EXPECT_THROW(with(std::string("format: csv\ndelimiter: ") + wrong + "\n"), std::invalid_argument)
        << wrong;
  }
  EXPECT_THROW(with("format: json\ndelimiter: \";\"\n"), std::invalid_argument);
  DecodedRows rows;
  MakeDecoder(semicolon)->Decode(BatchOf({"1.5;2", "1,5;2", "1;2;3"}), &rows);
  EXPECT_THAT(rows.features, ElementsAre(1.5f));
  ASSERT_EQ(rows.dead.size(), 2u);
  EXPECT_THAT(rows.dead[0].reason, HasSubstr("x: '1,5' is not a number"));
  EXPECT_THAT(rows.dead[1].reason, HasSubstr("has 3 columns instead of 2"));
}

const char* const kAttributed = R"(
fields:
  amount: {type: number}
  card:   {type: category, values: [k1, k2], from: key}
  day:    {type: number, mean: 1, from: timestamp}
  shop:   {type: id, below: 10, from: {header: shop}}
  truth:  {type: number, role: truth, from: {header: p}}
  unused: {role: ignore, from: {header: shop}}
  fraud:  {type: number, role: label, classes: 2}
)";

// `records`: bytes, key, header `shop`, and header `p` of each. Its timestamp is its place in seconds.
RecordBatch Attributed(const Schema& schema, const std::vector<std::array<const char*, 4>>& records) {
  std::vector<std::string> bytes;
  for (const auto& record : records) bytes.emplace_back(record[0]);
  RecordBatch batch = BatchOf(bytes, 100);
  batch.wanted = schema.attributes();
  batch.attributes.resize(batch.wanted.size());
  for (size_t i = 0; i < records.size(); ++i) {
    for (size_t a = 0; a < batch.wanted.size(); ++a) {
      const int64_t ms = 1000 * static_cast<int64_t>(i);
      const auto kind = batch.wanted[a].kind;
      const char* const text = records[i][kind == Attribute::Kind::kKey      ? 1
                                          : batch.wanted[a].header == "shop" ? 2
                                                                             : 3];
      std::optional<ByteView> value;
      if (kind == Attribute::Kind::kTimestamp) {
        value = ByteView(reinterpret_cast<const std::byte*>(&ms), sizeof(ms));
      } else if (text != nullptr) {
        value = AsBytes(text);
      }
      batch.attributes[a].Append(value);
    }
  }
  return batch;
}

TEST(AttributeDecoder, AddsKeysTimestampsAndHeadersToAnyFormat) {
  for (const bool json : {true, false}) {
    const Schema schema = Make((json ? "format: json" : "format: csv") + std::string(kAttributed));
    EXPECT_THAT(
        schema.attributes(),
        ElementsAre(Attribute{Attribute::Kind::kKey, ""}, Attribute{Attribute::Kind::kTimestamp, ""},
                    Attribute{Attribute::Kind::kHeader, "shop"}, Attribute{Attribute::Kind::kHeader, "p"}));
    const char* const good = json ? R"({"amount": 5, "fraud": 1, "card": "k1"})" : "5,1";
    const auto batch = Attributed(schema, {{good, "k2", "7", "0.5"},
                                           {"?", "k1", "7", "0.5"},
                                           {good, nullptr, "7", "0.5"},
                                           {good, "k3", "7", "0.5"},
                                           {good, "", "10", "0.5"},
                                           {good, "", "7", "nan"},
                                           {good, "k1", "+3", "1e-1"}});
    DecodedRows rows;
    MakeDecoder(schema)->Decode(batch, &rows);
    MakeDecoder(schema)->Decode(batch, &rows);
    EXPECT_THAT(rows.index, ElementsAre(0, 3, 6, 0, 3, 6));
    const std::vector<float> features = {5, 0, 1, -1, 7, 5, 0, 0, 2, 7, 5, 1, 0, 5, 3};
    ASSERT_EQ(rows.features.size(), 2 * features.size());
    EXPECT_EQ(std::vector(rows.features.begin(), rows.features.begin() + 15), features);
    EXPECT_EQ(std::vector(rows.features.begin() + 15, rows.features.end()), features);
    EXPECT_THAT(rows.labels, ElementsAre(1, 1, 1, 1, 1, 1));
    EXPECT_THAT(rows.truth, ElementsAre(0.5f, 0.5f, 0.1f, 0.5f, 0.5f, 0.1f));
    std::vector<std::string> dead;
    for (const auto& letter : rows.dead) dead.push_back(std::to_string(letter.offset) + " " + letter.reason);
    ASSERT_EQ(dead.size(), 8u);
    EXPECT_THAT(dead[0], HasSubstr("101 "));
    EXPECT_EQ(dead[1], "102 card: the record has no key");
    EXPECT_EQ(dead[2], "104 shop: 10 is not a whole number from 0 to 9");
    EXPECT_EQ(dead[3], "105 truth: 'nan' is not a number");
  }
}

TEST(AttributeDecoder, ARecordWithoutTheAttributeHasTheDefault) {
  const Schema schema = Make(
      "format: csv\nfields: {amount: {type: number}, card: {type: category, values: [k1, k2], from: key, "
      "default: k2}, "
      "age: {type: number, from: {header: age}, default: -1}}");
  RecordBatch batch = BatchOf({"5"});
  batch.wanted = schema.attributes();
  DecodedRows rows;
  MakeDecoder(schema)->Decode(batch, &rows);
  EXPECT_THAT(rows.features, ElementsAre(5, 0, 1, -1));
}

TEST(AttributeDecoder, SaysWhichFieldsCanComeFromAnAttribute) {
  const auto field = [](const std::string& text) {
    return ErrorOf("format: json\nfields:\n  a: {" + text + "}");
  };
  EXPECT_THAT(field("type: number, from: kye"),
              HasSubstr("job.yaml:3: unknown from 'kye'; did you mean 'key'?"));
  EXPECT_THAT(field("type: category, buckets: 3, from: timestamp"),
              HasSubstr("'a' is a category, a timestamp a number"));
  EXPECT_THAT(field("type: id, below: 3, length: 2, from: key"),
              HasSubstr("'a' is no number, category or id"));
  EXPECT_THAT(field("type: number, path: b.c, from: key"), HasSubstr("it has no path"));
  EXPECT_THAT(field("type: number, from: {headr: x}"), HasSubstr("did you mean 'header'?"));
  const auto hash = [](const std::string& from) {
    return Make("format: json\nfields: {a: {type: number" + from + "}}").hash();
  };
  const std::set<uint64_t> hashes = {hash(""), hash(", from: key"), hash(", from: timestamp"),
                                     hash(", from: {header: x}"), hash(", from: {header: y}")};
  EXPECT_EQ(hashes.size(), 5u);
}

TEST(CsvDecoder, ReadsColumnsInOrderOrByName) {
  const std::string fields =
      "fields:\n  x: {type: number}\n  k: {type: category, values: [no, yes], role: label}\n  y: {type: "
      "number, mean: 1}\n";
  EXPECT_THAT(Decode(Make("format: csv\n" + fields), {"1.5, yes, 3", "\"2\",\"no\",+.5"}).features,
              ElementsAre(1.5, 2, 2, -0.5));
  const DecodedRows rows = Decode(Make("format: csv\ncolumns: [k, other, y, x]\n" + fields),
                                  {"yes,?,3,1.5", "no,?,3", "no,?,,1", "no,?,3,nan", "no,?,3,0x10",
                                   "maybe,?,3,1", "no,?,3,1,2", "no,?,1e99,1", "no,?,+-3,1", "no,?,4,5"});
  EXPECT_THAT(rows.features, ElementsAre(1.5, 2, 5, 3));
  EXPECT_THAT(rows.labels, ElementsAre(1, 0));
  EXPECT_THAT(rows.index, ElementsAre(0, 9));
  const char* const reasons[] = {"has 3 columns instead of 4", "y: is missing",
                                 "x: 'nan' is not a number",   "x: '0x10' is not a number",
                                 "k: 'maybe' is not among",    "has 5 columns instead of 4",
                                 "y: 1e+99 is too large",      "y: '+-3' is not a number"};
  ASSERT_EQ(rows.dead.size(), std::size(reasons));
  for (size_t i = 0; i < rows.dead.size(); ++i) EXPECT_THAT(rows.dead[i].reason, HasSubstr(reasons[i]));
}

// A number at the end of a record must not include the first digits of the next record.
TEST(CsvDecoder, EndsANumberWhereItsRecordEnds) {
  const DecodedRows rows = Decode(Make("format: csv\nfields: {x: {type: number}}"),
                                  {"12", "34", "5.", "6", "1e", "7", "\"1\"", "8"});
  EXPECT_THAT(rows.features, ElementsAre(12, 34, 5, 6, 7, 1, 8));
  EXPECT_EQ(rows.dead.size(), 1u);
}

TEST(IdxDecoder, ScalesBytesAndChecksLengthAndClass) {
  const Schema schema = Make(
      "format: idx\nfields:\n  image: {type: bytes, width: 3, mean: 10, std: 2}\n  digit: {type: number, "
      "role: label, classes: 10}\n");
  const DecodedRows rows = Decode(schema, {std::string("\x00\x0a\xff\x09", 4), std::string("\x00\x0a\xff", 3),
                                           std::string("\x01\x02\x03\x0a", 4)});
  EXPECT_THAT(rows.features, ElementsAre(-5, 0, 122.5));
  EXPECT_THAT(rows.labels, ElementsAre(9));
  ASSERT_EQ(rows.dead.size(), 2u);
  EXPECT_EQ(rows.dead[0].reason, "has 3 bytes instead of 4");
  EXPECT_EQ(rows.dead[1].reason, "digit: 10 is not a whole number from 0 to 9");
}

}  // namespace
}  // namespace leat::stream
